//! `GET /v1/devices/{device_id}/assignments/stream`: the assignments of a device as server-sent events.
//!
//! Each message is `event: assignments`, its data the whole list, its `id` the list's `version`. A client that
//! reconnects with `Last-Event-ID` gets the list only if it has changed since. The stream ends with a drain,
//! with an unavailable store, and when the device is deleted (404 on reconnect).

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use millstream_api::run_assignments::AssignmentsMessage;
use millstream_model::permission::Permission;

use super::assignments::run_assignments;
use crate::auth::TenantCaller;
use crate::devices::heartbeat;
use crate::devices::watch::{self, AssignmentList, AssignmentWatch};
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/devices/{device_id}/assignments/stream", "watch_assignments", stream_assignments)
            .summary("Seats that the device holds or is offered, sent again on every change")
            .needs(Permission::ActAsDevice)
            .query(&[("if_version", "AssignmentsVersion")])
            .headers(&["Last-Event-ID"])
            .returns_in::<AssignmentsMessage>(
                200,
                "text/event-stream",
                "A stream of `assignments`, each the whole list",
            )
            .problems(&[404]),
    ]
}

async fn stream_assignments(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, RequestRefusal> {
    let if_version = params.take_param("if_version");
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    // An unreadable `Last-Event-ID` counts as the version of another list.
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let keep_alive = KeepAlive::new().interval(door.options.keep_alive).text("keep-alive");
    let watch = watch::watch_assignments(door.devices.clone(), key, resumed.or(if_version)).await?;
    let events = futures::stream::unfold(watch, |mut watch| async move {
        let event = next_message(&mut watch).await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    // Proxies that buffer would delay the messages.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))];
    Ok((unbuffered, Sse::new(events).keep_alive(keep_alive)).into_response())
}

async fn next_message(watch: &mut AssignmentWatch) -> Option<Event> {
    match watch.next_list().await? {
        Ok(AssignmentList { all, version }) => {
            let id = version.clone();
            Event::default().event("assignments").id(id).json_data(run_assignments(all, version)).ok()
        }
        Err(problem) => {
            tracing::debug!(reason = %problem.detail, "a stream of assignments ends");
            None
        }
    }
}
