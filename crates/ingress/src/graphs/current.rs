//! The current state of a graph: its snapshot (blob), folded with the transitions since.

use std::sync::Arc;

use millstream_model::id::ExecutionKey;
use millstream_model::status::ExecutionPhase;
use millstream_rpc::blob;
use millstream_store::StoreError;
use millstream_store::execution_store::{LoadRequest, LoadVerdict, MailboxLimits};
use millstream_workflow::graph::Graph;
use millstream_workflow::log::ExecutionState;
use millstream_workflow::machine::evolve;

use super::GraphDeps;
use super::find::{no_graph, unreadable_graph};
use super::run_off_runtime;
use crate::refusal::{RefusalKind, RequestRefusal};

#[derive(Debug)]
pub(crate) struct CurrentGraph {
    pub(crate) graph: Arc<Graph>,
    pub(crate) phase: ExecutionPhase,
}

/// The smallest mailbox: this reader decides no events.
const NO_MAIL: MailboxLimits = MailboxLimits { events: 1, bytes: 1 };

pub(crate) async fn load_current_graph(
    deps: &GraphDeps,
    key: &ExecutionKey,
) -> Result<CurrentGraph, RequestRefusal> {
    let wanted = LoadRequest { execution: key.clone(), known: None };
    let loaded = deps.stores.executions.load_executions(&[wanted], NO_MAIL).await?.pop();
    let gone = || no_graph(key.execution.as_str());
    let loaded = match loaded {
        Some(LoadVerdict::Found(loaded)) => loaded,
        Some(LoadVerdict::Missing) | None => return Err(gone()),
        Some(LoadVerdict::Corrupt { reason }) => return Err(StoreError::Corrupt(reason).into()),
    };
    let (Some((state, transitions)), Some(blob)) = (loaded.state, loaded.graph) else { return Err(gone()) };
    let folded =
        run_off_runtime(&deps.machines.graph_work, blob.len() + transitions.len() * 1024, move || {
            let graph = Some(Arc::new(blob::decode(&blob)?));
            let state = ExecutionState { graph, ..state };
            Ok(transitions.iter().fold(state, |state, transition| evolve(Some(state), transition)))
        });
    let state = folded.await?.map_err(unreadable_graph)?;
    let graph =
        state.graph.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the graph cannot be read"))?;
    Ok(CurrentGraph { graph, phase: state.phase })
}
