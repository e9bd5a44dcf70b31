//! The HTTP routes, behind the layers that every request passes.
//!
//! From the outside in: trace (ids, problem documents, panics), admission (sizes, hosts), authorization of
//! the caller by its headers, then the limit on requests in flight, from which health and metrics are exempt.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;

use super::route::{Route, RouteOperation};
use super::{
    admission, assignments, batch, definitions, devices, events, executions, executors, graphs,
    group_resolutions, health, history, incidents, interventions, items, keys, people, queues, quotas,
    resolutions, runs, signals, start, tail, task_outcomes, tasks, trace, workers,
};
use crate::state::IngressState;

/// Answers an unknown path that another protocol on this port recognises as its own.
type UnknownPathAnswer = fn(&HeaderMap) -> Option<Response>;

/// All routes behind their layers. An unknown path is answered by `unknown_path`, or with 404.
pub(crate) fn http_routes(door: &Arc<IngressState>, unknown_path: UnknownPathAnswer) -> Router {
    let api = api_routes().into_iter().map(|Route { doc, handler }| {
        let state = (door.clone(), doc.needs, doc.repeats());
        (doc, handler.route_layer(from_fn_with_state(state, admission::limit_in_flight)))
    });
    let health = health::routes().into_iter().map(|Route { doc, handler }| {
        let handler = match health::anonymous_budget(doc.path) {
            Some(budget) => handler
                .route_layer(from_fn_with_state((door.clone(), budget), admission::limit_anonymous_calls)),
            None => handler,
        };
        (doc, handler)
    });
    let mount = |router: Router<Arc<IngressState>>,
                 (doc, handler): (RouteOperation, MethodRouter<Arc<IngressState>>)| {
        // Outside of the limit on requests in flight: a rejected caller takes no slot.
        let handler = match doc.needs {
            Some(needs) => {
                handler.route_layer(from_fn_with_state((door.clone(), needs), admission::authorize_request))
            }
            None => handler,
        };
        router.route(doc.path, handler)
    };
    api.chain(health)
        .fold(Router::new(), mount)
        .fallback(move |headers: HeaderMap| async move {
            unknown_path(&headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
        })
        .layer(from_fn_with_state(door.clone(), admission::check_request))
        .layer(from_fn_with_state(door.clone(), trace::trace_request))
        .with_state(door.clone())
}

pub(crate) fn all_routes() -> Vec<Route> {
    let mut routes = api_routes();
    routes.extend(health::routes());
    routes
}

fn api_routes() -> Vec<Route> {
    [
        definitions::routes(),
        start::routes(),
        executions::routes(),
        history::routes(),
        events::routes(),
        batch::routes(),
        signals::routes(),
        interventions::routes(),
        incidents::routes(),
        resolutions::routes(),
        group_resolutions::routes(),
        tail::routes(),
        workers::routes(),
        quotas::routes(),
        keys::read::routes(),
        keys::issue::routes(),
        keys::revoke::routes(),
        tasks::routes(),
        task_outcomes::routes(),
        graphs::create::routes(),
        graphs::read::routes(),
        graphs::nodes::routes(),
        graphs::edits::routes(),
        graphs::reports::routes(),
        graphs::cancel::routes(),
        graphs::watch::routes(),
        executors::routes(),
        devices::roster::routes(),
        devices::heartbeat::routes(),
        devices::assignments::routes(),
        devices::watch::routes(),
        runs::create::routes(),
        runs::read::routes(),
        runs::why::routes(),
        runs::acts::routes(),
        runs::operate::routes(),
        queues::configure::routes(),
        queues::import::routes(),
        queues::stats::routes(),
        people::roster::routes(),
        items::read::routes(),
        items::withdraw::routes(),
        assignments::next::routes(),
        assignments::acts::routes(),
        assignments::operate::routes(),
        assignments::read::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
