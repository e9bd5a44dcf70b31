//! `GET /v1/devices/{device_id}/assignments/stream`: what a device has or is asked about, as server-sent events.
//!
//! Each message is `event: assignments`, its data the whole list, its `id` the list's mark. A client that comes back
//! with `Last-Event-ID` hears of the list only if it is another one by now. The stream ends with a drain, with a store
//! that is down, and when the device is forgotten (404 when it reconnects).

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
            .summary("The seats that a device has or is asked about, and again whenever that changes")
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
    // A mark that is not one is that of another list.
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let keep_alive = KeepAlive::new().interval(door.options.keep_alive).text("keep-alive");
    let watch = watch::watch(door, key, resumed.or(seen)).await?;
    let events = futures::stream::unfold(watch, |mut watch| async move {
        let event = next(&mut watch).await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    // Proxies that buffer would turn "as it happens" into "some time later".
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
