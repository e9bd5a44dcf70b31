//! Reads the nodes of a graph from the store.

use millstream_model::id::{ExecutionKey, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_store::graph_store::{LogView, NodeFilter, NodeView};
use millstream_workflow::graph::{NodeEdit, NodeId, NodeOutcome};

use super::GraphDeps;
use super::find::{find_graph, no_graph};
use crate::refusal::RequestRefusal;

/// Rows with their results in memory at once: each may have a megabyte.
const AT_ONCE: usize = 50;

/// Ordered by id, each mapped by `show`; one more than `limit` where there are more.
pub(crate) async fn list_nodes<T>(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    filter: &NodeFilter,
    after: Option<NodeId>,
    limit: usize,
    mut show: impl FnMut(NodeView) -> Result<T, RequestRefusal>,
) -> Result<Vec<(NodeId, T)>, RequestRefusal> {
    let (mut shown, mut after) = (Vec::new(), after);
    while shown.len() <= limit {
        let wanted = (limit + 1 - shown.len()).min(AT_ONCE);
        let page = deps.stores.graph_views.list_nodes(graph, filter, after.as_ref(), wanted).await?;
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
pub(crate) fn parse_node_id(id: &str) -> Result<NodeId, RequestRefusal> {
    Name::parse(id).map_err(|_| RequestRefusal::not_found("node", id))
}

pub(crate) async fn find_node(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeId,
) -> Result<NodeView, RequestRefusal> {
    let filter = NodeFilter { ids: vec![node.clone()], statuses: Vec::new() };
    let found = deps.stores.graph_views.list_nodes(graph, &filter, None, 1).await?;
    match found.into_iter().next() {
        Some(view) => Ok(view),
        None => {
            // The graph itself may be missing.
            find_graph(deps, graph).await?;
            Err(RequestRefusal::not_found("node", node))
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
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeView,
) -> Result<NodeDetails, RequestRefusal> {
    if node.status.is_ended() {
        return Ok(NodeDetails { edits: outcome_edits(deps, graph, node).await?, progress: None });
    }
    let action = super::attempt::last_action(deps, graph, node).await?;
    Ok(NodeDetails { edits: Vec::new(), progress: action.and_then(|action| action.progress) })
}

/// The edits of the outcome that ended the node, where that was the node's last change.
async fn outcome_edits(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeView,
) -> Result<Vec<NodeEdit>, RequestRefusal> {
    let before = Seq(node.seq.0.saturating_sub(1));
    let page = deps.stores.execution_views.read_history(graph, before, 1).await?;
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
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeId,
    after: i64,
    limit: usize,
) -> Result<Vec<LogView>, RequestRefusal> {
    let found = deps.stores.graph_views.read_logs(graph, node, after, limit).await?;
    if found.is_empty() {
        find_node(deps, graph, node).await?;
    }
    Ok(found)
}

/// Checks that the execution exists and is a graph.
pub(crate) async fn check_graph_exists(deps: &GraphDeps, graph: &ExecutionKey) -> Result<(), RequestRefusal> {
    let found = deps.stores.events.find_definitions(std::slice::from_ref(graph)).await?;
    match found.into_iter().next().flatten() {
        Some(definition) if definition.name == Name::graph() => Ok(()),
        Some(_) | None => Err(no_graph(graph.execution.as_str())),
    }
}
