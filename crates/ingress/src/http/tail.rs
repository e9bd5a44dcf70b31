//! Tail: the transitions of an execution as server-sent events, as they happen.
//!
//! Each message is `event: transition`, its `id` the seq, its data the history entry. A client that
//! reconnects with `Last-Event-ID` resumes after it and misses no transition, because all transitions are
//! read from the log; announcements only trigger a read. After the last transition of an ended execution
//! comes `event: end` and the stream closes; a client that reconnects afterwards gets 204, on which an
//! `EventSource` stops reconnecting. A drain or an unavailable store ends the stream as well: the client
//! reconnects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use millstream_api::history::{ExecutionTransition, TailEnd, TailSseMessage};
use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;

use super::executions;
use super::route::Route;
use super::views;
use crate::admission::HeldPlace;
use crate::auth::TenantCaller;
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::submit::event_draft;
use crate::waiters::{ExecutionSubscription, RereadPause};

const PAGE: usize = 100;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/executions/{execution_id}/tail", "tail_execution", tail_execution)
            .summary("Transitions as they happen; the id of a message is its seq")
            .needs(Permission::ReadData)
            .query(&[("after", "SeqOrZero")])
            .headers(&["Last-Event-ID"])
            .returns_in::<TailSseMessage>(200, "text/event-stream", "A stream of `transition`, then `end`")
            .returns_nothing(204, "The execution has ended and the client has every transition")
            .problems(&[404]),
    ]
}

async fn tail_execution(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, RequestRefusal> {
    let number = |text: &str| {
        text.parse().ok().filter(|seq| *seq >= 0).map(Seq).ok_or("is not the seq of a transition")
    };
    let after = params.parse_param("after", number);
    params.finish_params()?;
    let resumed = match headers.get("last-event-id") {
        None => None,
        Some(value) => Some(
            number(value.to_str().unwrap_or(""))
                .map_err(|message| RequestRefusal::invalid(vec![Fault::new("Last-Event-ID", message)]))?,
        ),
    };
    let after = resumed.or(after).unwrap_or(Seq(0));

    let execution = event_draft::parse_execution_key(&caller, &id)?;
    let permit = door.admission.stream_place(&caller.tenant)?;
    let ear = door.news.subscribe_to(execution.clone());
    let view = executions::find_execution(&door, &execution).await?;
    if resumed.is_some() && view.state.phase.is_ended() && after >= view.state.seq {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let keep_alive = KeepAlive::new().interval(door.options.keep_alive).text("keep-alive");
    let tail = ExecutionTail {
        pause: RereadPause::of(door.options.reread),
        door,
        execution,
        after,
        ear,
        waiting: VecDeque::new(),
        stage: TailStage::Reading,
        _permit: permit,
    };
    // Proxies that buffer would delay the events.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))];
    Ok((unbuffered, Sse::new(tail.into_stream()).keep_alive(keep_alive)).into_response())
}

struct ExecutionTail {
    door: Arc<IngressState>,
    execution: ExecutionKey,
    /// The seq of the last transition that was read.
    after: Seq,
    ear: ExecutionSubscription,
    pause: RereadPause,
    waiting: VecDeque<ExecutionTransition<RawJson>>,
    stage: TailStage,
    _permit: HeldPlace,
}

#[derive(Debug, Clone, Copy)]
enum TailStage {
    Reading,
    /// The last read found nothing new: wait for an announcement.
    Listening,
    Done,
}

impl ExecutionTail {
    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        futures::stream::unfold(self, |mut tail| async move {
            let event = tail.next_message().await?;
            Some((Ok(event), tail))
        })
    }

    async fn next_message(&mut self) -> Option<Event> {
        loop {
            if let Some(transition) = self.waiting.pop_front() {
                let id = transition.seq.to_string();
                return Event::default().event("transition").id(id).json_data(transition).ok();
            }
            if self.door.draining.is_cancelled() {
                return None;
            }
            match self.stage {
                TailStage::Done => return None,
                TailStage::Listening => {
                    let draining = self.door.draining.clone();
                    tokio::select! {
                        () = self.ear.wait_for_news(self.pause.next_pause(self.door.entropy.next_u64())) => {}
                        () = draining.cancelled() => return None,
                    }
                    self.stage = TailStage::Reading;
                }
                TailStage::Reading => match self.read_transitions().await {
                    Ok(None) => {}
                    Ok(Some(end)) => {
                        self.stage = TailStage::Done;
                        return Event::default().event("end").json_data(end).ok();
                    }
                    Err(error) => {
                        tracing::warn!(%error, execution = %self.execution, "execution tail ended");
                        return None;
                    }
                },
            }
        }
    }

    /// Reads new transitions. Returns the end once the execution has ended and every transition was read.
    async fn read_transitions(&mut self) -> millstream_store::StoreResult<Option<TailEnd>> {
        let views = &self.door.stores.execution_views;
        let page = views.read_history(&self.execution, self.after, PAGE).await?.entries;
        if let Some(last) = page.last() {
            self.after = last.transition.seq;
            self.pause.reset_backoff();
            self.waiting = page.into_iter().map(views::transition).collect();
            return Ok(None);
        }
        self.stage = TailStage::Listening;
        let view = views.find_executions(std::slice::from_ref(&self.execution)).await?;
        match view.into_iter().next().flatten() {
            // Removed by retention: the execution had ended.
            None => {
                self.stage = TailStage::Done;
                Ok(None)
            }
            Some(view) if view.state.phase.is_ended() && self.after >= view.state.seq => {
                Ok(Some(TailEnd { status: view.status.into(), seq: view.state.seq.0 }))
            }
            // A transition was committed between the two reads.
            Some(view) if view.state.seq > self.after => {
                self.stage = TailStage::Reading;
                Ok(None)
            }
            Some(_) => Ok(None),
        }
    }
}
