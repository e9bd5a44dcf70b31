//! Reads one graph, or a list of graphs, from the store.

use millstream_model::id::{AcceptNo, ExecutionId, ExecutionKey, Name};
use millstream_model::status::ExecutionStatus;
use millstream_rpc::unreadable::StoredFormError;
use millstream_store::graph_store::GraphView;
use millstream_store::views::{ExecutionFilter, ExecutionView};

use super::GraphDeps;
use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};

/// A graph and its execution.
#[derive(Debug)]
pub(crate) struct FoundGraph {
    pub(crate) graph: GraphView,
    pub(crate) execution: ExecutionView,
}

/// The graph that a request names; an invalid id is answered like an unknown one.
pub(crate) fn parse_graph_key(caller: &TenantCaller, id: &str) -> Result<ExecutionKey, RequestRefusal> {
    let execution = ExecutionId::parse(id).map_err(|_| no_graph(id))?;
    Ok(ExecutionKey { tenant: caller.tenant.clone(), execution })
}

pub(crate) async fn find_graph(deps: &GraphDeps, key: &ExecutionKey) -> Result<FoundGraph, RequestRefusal> {
    let keys = std::slice::from_ref(key);
    let (graphs, executions) = tokio::try_join!(
        deps.stores.graph_views.find_graphs(keys),
        deps.stores.execution_views.find_executions(keys)
    )?;
    match (graphs.into_iter().next().flatten(), executions.into_iter().next().flatten()) {
        (Some(graph), Some(execution)) => Ok(FoundGraph { graph, execution }),
        (Some(_) | None, Some(_) | None) => Err(no_graph(key.execution.as_str())),
    }
}

/// Graphs whose blobs are in memory at once: each may have megabytes.
const AT_ONCE: usize = 8;

/// Newest first, each mapped by `show`; one more than `limit` where there are more.
pub(crate) async fn list_graphs<T>(
    deps: &GraphDeps,
    caller: &TenantCaller,
    status: Option<ExecutionStatus>,
    after: Option<AcceptNo>,
    limit: usize,
    mut show: impl FnMut(FoundGraph) -> Result<T, StoredFormError>,
) -> Result<Vec<(AcceptNo, T)>, RequestRefusal> {
    let filter = ExecutionFilter { definition: Some(Name::graph()), state: None, status };
    let views = &deps.stores.execution_views;
    let executions = views.list_executions(&caller.tenant, &filter, after, limit + 1).await?;
    let mut shown = Vec::with_capacity(executions.len());
    let mut executions = executions.into_iter().peekable();
    while executions.peek().is_some() {
        let some: Vec<ExecutionView> = executions.by_ref().take(AT_ONCE).collect();
        let keys: Vec<ExecutionKey> = some.iter().map(|view| view.execution.clone()).collect();
        let graphs = deps.stores.graph_views.find_graphs(&keys).await?;
        for (execution, graph) in some.into_iter().zip(graphs) {
            // Removed by retention between the two reads.
            let Some(graph) = graph else { continue };
            let position = execution.position;
            shown.push((position, show(FoundGraph { graph, execution }).map_err(unreadable_graph)?));
        }
    }
    Ok(shown)
}

pub(super) fn no_graph(id: &str) -> RequestRefusal {
    RequestRefusal::not_found("graph", id)
}

/// Stored data that cannot be read is logged for operators and answered as an internal error.
pub(crate) fn unreadable_graph(error: StoredFormError) -> RequestRefusal {
    tracing::error!(%error, "stored graph data cannot be read");
    RequestRefusal::new(RefusalKind::Internal, "stored data cannot be read; the log has more")
}
