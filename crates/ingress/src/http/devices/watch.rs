//! `GET /v1/devices/{device_id}/assignments/stream`: the assignments of a device as server-sent events.
//!
//! Each message is `event: assignments`, its data the whole list, its `id` the list's version (`mark`). A
//! client that reconnects with `Last-Event-ID` gets the list only if it has changed since. The stream ends
//! with a drain, with an unavailable store, and when the device is deleted (404 on reconnect).

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use millstream_core::permission::Permission;

use super::assignments::AssignmentsOut;
use crate::auth::Caller;
use crate::devices::beat;
use crate::devices::watch::{self, Listed, Watch};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/devices/{device_id}/assignments/stream", "watch_assignments", stream)
            .summary("Seats that the device holds or is offered, sent again on every change")
            .needs(Permission::ActAsDevice)
            .query(&[("seen", "AssignmentsMark")])
            .headers(&["Last-Event-ID"])
            .answer_in(
                200,
                "text/event-stream",
                "AssignmentsMessage",
                "A stream of `assignments`, each the whole list",
            )
            .problems(&[404]),
    ]
}

async fn stream(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    let seen = params.take("seen");
    params.finish()?;
    let key = beat::key_of(&caller, &id)?;
    // An unreadable `Last-Event-ID` counts as the version of another list.
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let keep_alive = KeepAlive::new().interval(door.options.keep_alive).text("keep-alive");
    let watch = watch::watch(door, key, resumed.or(seen)).await?;
    let events = futures::stream::unfold(watch, |mut watch| async move {
        let event = next(&mut watch).await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    // Proxies that buffer would delay the messages.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))];
    Ok((unbuffered, Sse::new(events).keep_alive(keep_alive)).into_response())
}

async fn next(watch: &mut Watch) -> Option<Event> {
    match watch.next().await? {
        Ok(Listed { all, mark }) => {
            let id = mark.clone();
            Event::default().event("assignments").id(id).json_data(AssignmentsOut::of(all, mark)).ok()
        }
        Err(problem) => {
            tracing::debug!(reason = %problem.detail, "a stream of assignments ends");
            None
        }
    }
}
