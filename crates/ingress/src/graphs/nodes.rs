//! Reads the nodes of a graph from the store.

use millstream_model::id::{ExecutionKey, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_store::graph_store::{LogView, NodeFilter, NodeView};
use millstream_workflow::graph::{NodeEdit, NodeId, NodeOutcome};

use super::find::{find_graph, no_graph};
use crate::http::problem::ApiProblem;
use crate::state::IngressState;

/// Rows with their results in memory at once: each may have a megabyte.
const AT_ONCE: usize = 50;

/// Ordered by id, each mapped by `show`; one more than `limit` where there are more.
pub(crate) async fn list_nodes<T>(
    door: &IngressState,
    graph: &ExecutionKey,
    filter: &NodeFilter,
    after: Option<NodeId>,
    limit: usize,
    mut show: impl FnMut(NodeView) -> Result<T, ApiProblem>,
) -> Result<Vec<(NodeId, T)>, ApiProblem> {
    let (mut shown, mut after) = (Vec::new(), after);
    while shown.len() <= limit {
        let wanted = (limit + 1 - shown.len()).min(AT_ONCE);
        let page = door.stores.graph_views.list_nodes(graph, filter, after.as_ref(), wanted).await?;
        let last = page.len() < wanted;
        for view in page {
            let id = view.node.clone();
            shown.push((id.clone(), show(view)?));
            after = Some(id);
        }
        if last {
            break;
        }
    }
    Ok(shown)
}

/// The node that a request names; an invalid id is answered like an unknown one.
pub(crate) fn parse_node_id(id: &str) -> Result<NodeId, ApiProblem> {
    Name::parse(id).map_err(|_| ApiProblem::not_found("node", id))
}

pub(crate) async fn find_node(
    door: &IngressState,
    graph: &ExecutionKey,
    node: &NodeId,
) -> Result<NodeView, ApiProblem> {
    let filter = NodeFilter { ids: vec![node.clone()], statuses: Vec::new() };
    let found = door.stores.graph_views.list_nodes(graph, &filter, None, 1).await?;
    match found.into_iter().next() {
        Some(view) => Ok(view),
        None => {
            // The graph itself may be missing.
            find_graph(door, graph).await?;
            Err(ApiProblem::not_found("node", node))
        }
    }
}

/// Details of a node beyond its row.
#[derive(Debug, Default)]
pub(crate) struct NodeDetails {
    /// Edits that the node's result requested.
    pub(crate) edits: Vec<NodeEdit>,
    /// Latest progress of the attempt under way.
    pub(crate) progress: Option<RawJson>,
}

pub(crate) async fn node_details(
    door: &IngressState,
    graph: &ExecutionKey,
    node: &NodeView,
) -> Result<NodeDetails, ApiProblem> {
    if node.status.is_ended() {
        return Ok(NodeDetails { edits: outcome_edits(door, graph, node).await?, progress: None });
    }
    let action = super::attempt::last_action(door, graph, node).await?;
    Ok(NodeDetails { edits: Vec::new(), progress: action.and_then(|action| action.progress) })
}

/// The edits of the outcome that ended the node, where that was the node's last change.
async fn outcome_edits(
    door: &IngressState,
    graph: &ExecutionKey,
    node: &NodeView,
) -> Result<Vec<NodeEdit>, ApiProblem> {
    let before = Seq(node.seq.0.saturating_sub(1));
    let page = door.stores.execution_views.read_history(graph, before, 1).await?;
    let outcome = page
        .entries
        .first()
        .filter(|entry| entry.transition.seq == node.seq && entry.transition.name == Name::node_outcome());
    let outcome = outcome.and_then(|entry| entry.payload.decode::<NodeOutcome>().ok());
    let answer = outcome.filter(|outcome| outcome.action == node.node).and_then(|outcome| outcome.result);
    Ok(answer.map(|answer| answer.edits).unwrap_or_default())
}

/// Log entries of the node's executors, after a position.
pub(crate) async fn list_logs(
    door: &IngressState,
    graph: &ExecutionKey,
    node: &NodeId,
    after: i64,
    limit: usize,
) -> Result<Vec<LogView>, ApiProblem> {
    let found = door.stores.graph_views.read_logs(graph, node, after, limit).await?;
    if found.is_empty() {
        find_node(door, graph, node).await?;
    }
    Ok(found)
}

/// Checks that the execution exists and is a graph.
pub(crate) async fn check_graph_exists(door: &IngressState, graph: &ExecutionKey) -> Result<(), ApiProblem> {
    let found = door.stores.events.find_definitions(std::slice::from_ref(graph)).await?;
    match found.into_iter().next().flatten() {
        Some(definition) if definition.name == Name::graph() => Ok(()),
        Some(_) | None => Err(no_graph(graph.execution.as_str())),
    }
}
