//! `GET /v1/graphs/{graph_id}/watch`: what happens to a graph, as server-sent events.
//!
//! The `event` of a message is its type, its `id` the place to go on from (`Last-Event-ID`). After the end of
//! the graph the stream closes; a client that reconnects even then is told 204, which stops an `EventSource`
//! for good. A drain, or a store that is down, ends the stream: reconnect.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use millstream_core::graph::Notice;
use millstream_core::id::{ExecutionId, Seq};
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::time::Timestamp;
use serde::Serialize;

use crate::auth::Caller;
use crate::door::Door;
use crate::graphs::find;
use crate::graphs::place::Place;
use crate::graphs::watch::{self, Happening, Watch, Watching, What};
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs/{graph_id}/watch", "watch_graph", get)
            .summary("What happened to a graph and then what happens; ids are places to go on from")
            .needs(Permission::ReadData)
            .query(&[("after", "WatchPlace")])
            .headers(&["Last-Event-ID"])
            .answer_in(
                200,
                "text/event-stream",
                "WatchMessage",
                "A stream of events, until the graph has ended",
            )
            .answer_in(204, "", "", "The graph has ended and everything was seen")
            .problems(&[404]),
    ]
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    let place = |text: &str| Place::parse(text).ok_or("is not the id of an event");
    let after = params.parsed("after", place);
    params.finish()?;
    // One without an id begins at the beginning.
    let resumed = match headers.get("last-event-id").filter(|value| !value.is_empty()) {
        None => None,
        Some(value) => Some(
            place(value.to_str().unwrap_or(""))
                .map_err(|message| Problem::invalid(vec![Fault::new("Last-Event-ID", message)]))?,
        ),
    };
    let graph = find::key_of(&caller, &id)?;
    let graph_id = graph.execution.clone();
    let keep_alive = KeepAlive::new().interval(door.options.keep_alive).text("keep-alive");
    let watch = match watch::watch(door, graph, resumed.or(after)).await? {
        Watching::SeenAll => return Ok(StatusCode::NO_CONTENT.into_response()),
        Watching::On(watch) => watch,
    };
    let events = futures::stream::unfold((watch, graph_id), |(mut watch, graph_id)| async move {
        let event = next(&mut watch, &graph_id).await?;
        Some((Ok::<_, Infallible>(event), (watch, graph_id)))
    });
    // Proxies that buffer would turn "as it happens" into "some time later".
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))];
    Ok((unbuffered, Sse::new(events).keep_alive(keep_alive)).into_response())
}

async fn next(watch: &mut Watch, graph_id: &ExecutionId) -> Option<Event> {
    match watch.next().await? {
        Ok(happening) => shown(happening, graph_id),
        Err(problem) => {
            tracing::debug!(reason = %problem.detail, graph = %graph_id, "a watch ends");
            None
        }
    }
}

#[derive(Serialize)]
struct HappeningOut<'a> {
    graph_id: &'a ExecutionId,
    at: Timestamp,
    /// The place in the log, if it is on the log.
    seq: Option<Seq>,
    #[serde(flatten)]
    what: WhatOut,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WhatOut {
    Noticed(Notice),
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

fn shown(happening: Happening, graph_id: &ExecutionId) -> Option<Event> {
    let Happening { place, at, what } = happening;
    let (kind, seq, what) = match what {
        What::Noticed(seq, notice) => (notice.kind(), Some(seq), WhatOut::Noticed(notice)),
        What::Dispatched(it) => (
            DISPATCHED,
            None,
            WhatOut::Dispatched {
                kind: DISPATCHED,
                node: it.node_id,
                attempt: it.attempt,
                executor: it.executor,
                reason: it.reason,
            },
        ),
    };
    let data = HappeningOut { graph_id, at, seq, what };
    Event::default().event(kind).id(place.to_string()).json_data(data).ok()
}
