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
use millstream_api::graph_watch::{GraphEvent, GraphNotice, GraphWatchMessage, NodeSpecChange};
use millstream_model::id::ExecutionId;
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_workflow::graph::{NodeSpec, NodeSpecUpdate};
use millstream_workflow::graph_machine::GraphTransitionNotice;

use super::views::node_status;
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
            .returns_in::<GraphWatchMessage>(
                200,
                "text/event-stream",
                "A stream of events until the graph ends",
            )
            .returns_nothing(204, "The graph has ended and the client has every event")
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

const DISPATCHED: &str = "node.dispatched";

fn view_message(happening: WatchedEvent, graph_id: &ExecutionId) -> Option<Event> {
    let WatchedEvent { place, at, what } = happening;
    let (kind, seq, what) = match what {
        WatchedEventKind::Noticed(seq, notice) => (notice.kind(), Some(seq.0), graph_notice(notice)),
        WatchedEventKind::Dispatched(dispatched) => (
            DISPATCHED,
            None,
            GraphNotice::Dispatched {
                node: dispatched.node_id,
                attempt: dispatched.attempt,
                executor: dispatched.executor,
                reason: Some(dispatched.reason),
            },
        ),
    };
    let position = place.to_string();
    let data = GraphEvent { position: String::new(), graph_id: graph_id.to_string(), at, seq, what };
    Event::default().event(kind).id(position).json_data(data).ok()
}

fn graph_notice(notice: GraphTransitionNotice) -> GraphNotice<Arc<NodeSpec>> {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    match notice {
        GraphTransitionNotice::Created { name, creator, nodes } => {
            GraphNotice::Created { name, creator, nodes: count(nodes) }
        }
        GraphTransitionNotice::Edited { revision, inserted, updated, deleted } => GraphNotice::Edited {
            revision,
            inserted,
            updated: updated
                .into_iter()
                .map(|NodeSpecUpdate { was, is }| NodeSpecChange { was, is })
                .collect(),
            deleted: deleted.iter().map(ToString::to_string).collect(),
        },
        GraphTransitionNotice::Expanded { node, instances, revision } => {
            GraphNotice::Expanded { node: node.to_string(), instances: count(instances), revision }
        }
        GraphTransitionNotice::Scheduled { node, attempt, why } => {
            GraphNotice::Scheduled { node: node.to_string(), attempt, why }
        }
        GraphTransitionNotice::Retried { node, attempt, why } => {
            GraphNotice::Retried { node: node.to_string(), attempt, why }
        }
        GraphTransitionNotice::NodeCompleted { node, status, attempt, why } => {
            GraphNotice::NodeCompleted { node: node.to_string(), status: node_status(status), attempt, why }
        }
        GraphTransitionNotice::Completed => GraphNotice::Completed,
        GraphTransitionNotice::Failed { reason } => GraphNotice::Failed { reason },
        GraphTransitionNotice::Cancelled { reason } => GraphNotice::Cancelled { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::raw::RawJson;
    use millstream_workflow::graph::{NodeId, NodeStatus, SubExecution};

    #[test]
    fn graph_notice_of_api_has_json_of_engine() {
        let (node, why) = (NodeId::parse("a").unwrap(), Some("parent b passed".to_owned()));
        let spec = |name: &str, input: &str| {
            let mut spec: NodeSpec = serde_json::from_str(&format!(r#"{{"id":"{name}"}}"#)).unwrap();
            spec.execution = Some(SubExecution {
                definition: node.clone(),
                version: None,
                input: RawJson::parse(input).unwrap(),
            });
            Arc::new(spec)
        };
        let updated = NodeSpecUpdate { was: spec("c", "1"), is: spec("c", "[1.0]") };
        for notice in [
            GraphTransitionNotice::Created { name: "n".to_owned(), creator: why.clone(), nodes: 2 },
            GraphTransitionNotice::Edited {
                revision: 2,
                inserted: vec![spec("b", r#"{"n": 1.0}"#)],
                updated: vec![updated],
                deleted: vec![node.clone()],
            },
            GraphTransitionNotice::Expanded { node: node.clone(), instances: 3, revision: 4 },
            GraphTransitionNotice::Scheduled { node: node.clone(), attempt: 1, why: why.clone() },
            GraphTransitionNotice::Retried { node: node.clone(), attempt: 2, why: None },
            GraphTransitionNotice::NodeCompleted { node, status: NodeStatus::Fail, attempt: 2, why },
            GraphTransitionNotice::Completed,
            GraphTransitionNotice::Failed { reason: Some("r".to_owned()) },
            GraphTransitionNotice::Cancelled { reason: None },
        ] {
            let expected = serde_json::to_string(&notice).unwrap();
            assert_eq!(serde_json::to_string(&graph_notice(notice)).unwrap(), expected);
        }
    }
}
