//! `GET /v1/graphs/{graph_id}/watch`: the changes of a graph as server-sent events.
//!
//! The `event` of a message is its type, its `id` the position to resume from (`Last-Event-ID`). The stream
//! closes when the graph ends; a client that reconnects afterwards gets 204, on which an `EventSource` stops
//! reconnecting. A drain or an unavailable store ends the stream as well: the client reconnects.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use millstream_model::id::{ExecutionId, Seq};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::time::Timestamp;
use millstream_workflow::graph_machine::GraphTransitionNotice;
use serde::Serialize;

use crate::auth::TenantCaller;
use crate::graphs::find;
use crate::graphs::watch::{self, GraphWatch, GraphWatchStart, WatchedEvent, WatchedEventKind};
use crate::graphs::watch_position::WatchPosition;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs/{graph_id}/watch", "watch_graph", watch_graph)
            .summary("Past and future changes of a graph; each id is a position to resume from")
            .needs(Permission::ReadData)
            .query(&[("after", "WatchPlace")])
            .headers(&["Last-Event-ID"])
            .answer_in(200, "text/event-stream", "WatchMessage", "A stream of events until the graph ends")
            .answer_in(204, "", "", "The graph has ended and the client has every event")
            .problems(&[404]),
    ]
}

async fn watch_graph(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, RequestRefusal> {
    let place = |text: &str| WatchPosition::parse(text).ok_or("is not the id of an event");
    let after = params.parse_param("after", place);
    params.finish_params()?;
    // A `Last-Event-ID` header without a value starts at the beginning.
    let resumed = match headers.get("last-event-id").filter(|value| !value.is_empty()) {
        None => None,
        Some(value) => Some(
            place(value.to_str().unwrap_or(""))
                .map_err(|message| RequestRefusal::invalid(vec![Fault::new("Last-Event-ID", message)]))?,
        ),
    };
    let graph = find::parse_graph_key(&caller, &id)?;
    let graph_id = graph.execution.clone();
    let keep_alive = KeepAlive::new().interval(door.options.keep_alive).text("keep-alive");
    let watch = match watch::watch_graph(door.graphs.clone(), graph, resumed.or(after)).await? {
        GraphWatchStart::SeenAll => return Ok(StatusCode::NO_CONTENT.into_response()),
        GraphWatchStart::On(watch) => watch,
    };
    let events = futures::stream::unfold((watch, graph_id), |(mut watch, graph_id)| async move {
        let event = next_message(&mut watch, &graph_id).await?;
        Some((Ok::<_, Infallible>(event), (watch, graph_id)))
    });
    // Proxies that buffer would delay the events.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))];
    Ok((unbuffered, Sse::new(events).keep_alive(keep_alive)).into_response())
}

async fn next_message(watch: &mut GraphWatch, graph_id: &ExecutionId) -> Option<Event> {
    match watch.next_event().await? {
        Ok(happening) => view_message(happening, graph_id),
        Err(problem) => {
            tracing::debug!(reason = %problem.detail, graph = %graph_id, "graph watch ended");
            None
        }
    }
}

#[derive(Serialize)]
struct GraphWatchMessage<'a> {
    graph_id: &'a ExecutionId,
    at: Timestamp,
    /// The seq in the log; none for an event that the log does not hold.
    seq: Option<Seq>,
    #[serde(flatten)]
    what: GraphChangeDetail,
}

#[derive(Serialize)]
#[serde(untagged)]
enum GraphChangeDetail {
    Noticed(GraphTransitionNotice),
    Dispatched {
        #[serde(rename = "type")]
        kind: &'static str,
        node: String,
        attempt: u32,
        executor: String,
        reason: String,
    },
}

const DISPATCHED: &str = "node.dispatched";

fn view_message(happening: WatchedEvent, graph_id: &ExecutionId) -> Option<Event> {
    let WatchedEvent { place, at, what } = happening;
    let (kind, seq, what) = match what {
        WatchedEventKind::Noticed(seq, notice) => {
            (notice.kind(), Some(seq), GraphChangeDetail::Noticed(notice))
        }
        WatchedEventKind::Dispatched(it) => (
            DISPATCHED,
            None,
            GraphChangeDetail::Dispatched {
                kind: DISPATCHED,
                node: it.node_id,
                attempt: it.attempt,
                executor: it.executor,
                reason: it.reason,
            },
        ),
    };
    let data = GraphWatchMessage { graph_id, at, seq, what };
    Event::default().event(kind).id(place.to_string()).json_data(data).ok()
}
