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

use super::api_tag::ApiTag;
use super::route::{ApiPart, Route, RouteOperation};
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

/// The whole API, part by part.
pub(crate) fn all_parts() -> Vec<ApiPart> {
    let mut parts = api_parts();
    parts.push(ApiPart::of(ApiTag::System, [health::routes()]));
    parts
}

pub(crate) fn all_routes() -> Vec<Route> {
    all_parts().into_iter().flat_map(|part| part.routes).collect()
}

fn api_routes() -> Vec<Route> {
    api_parts().into_iter().flat_map(|part| part.routes).collect()
}

fn api_parts() -> Vec<ApiPart> {
    vec![
        ApiPart::of(ApiTag::Definitions, [definitions::routes()]),
        ApiPart::of(
            ApiTag::Executions,
            [
                start::routes(),
                executions::routes(),
                history::routes(),
                interventions::execution_routes(),
                tail::routes(),
            ],
        ),
        ApiPart::of(ApiTag::Events, [events::routes(), batch::routes(), interventions::event_routes()]),
        ApiPart::of(ApiTag::Signals, [signals::routes()]),
        ApiPart::of(
            ApiTag::Incidents,
            [incidents::routes(), resolutions::routes(), group_resolutions::routes()],
        ),
        ApiPart::of(ApiTag::System, [workers::routes()]),
        ApiPart::of(ApiTag::Tenants, [quotas::routes()]),
        ApiPart::of(ApiTag::Keys, [keys::read::routes(), keys::issue::routes(), keys::revoke::routes()]),
        ApiPart::of(ApiTag::Tasks, [tasks::routes(), task_outcomes::routes()]),
        ApiPart::of(
            ApiTag::Graphs,
            [
                graphs::create::routes(),
                graphs::read::routes(),
                graphs::nodes::routes(),
                graphs::edits::routes(),
                graphs::reports::routes(),
                graphs::cancel::routes(),
                graphs::watch::routes(),
            ],
        ),
        ApiPart::of(ApiTag::Executors, [executors::routes()]),
        ApiPart::of(
            ApiTag::Devices,
            [
                devices::roster::routes(),
                devices::heartbeat::routes(),
                devices::assignments::routes(),
                devices::watch::routes(),
            ],
        ),
        ApiPart::of(
            ApiTag::Runs,
            [
                runs::create::routes(),
                runs::read::routes(),
                runs::why::routes(),
                runs::acts::routes(),
                runs::operate::routes(),
            ],
        ),
        ApiPart::of(
            ApiTag::Queues,
            [queues::configure::routes(), queues::import::routes(), queues::stats::routes()],
        ),
        ApiPart::of(ApiTag::People, [people::roster::routes()]),
        ApiPart::of(ApiTag::Items, [items::read::routes(), items::withdraw::routes()]),
        ApiPart::of(
            ApiTag::Assignments,
            [
                assignments::next::routes(),
                assignments::acts::routes(),
                assignments::operate::routes(),
                assignments::read::routes(),
            ],
        ),
    ]
}
