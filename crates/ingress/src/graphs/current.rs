//! The current state of a graph: its snapshot (blob), folded with the transitions since.

use std::sync::Arc;

use millstream_core::graph::Graph;
use millstream_core::id::ExecutionKey;
use millstream_core::log::State;
use millstream_core::machine::evolve;
use millstream_core::status::Phase;
use millstream_rpc::blob;
use millstream_store::StoreError;
use millstream_store::execution_store::{Loaded, MailboxLimits, Wanted};

use super::find::{none, unreadable};
use super::heavy;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};

#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) graph: Arc<Graph>,
    pub(crate) phase: Phase,
}

/// The smallest mailbox: this reader decides no events.
const NO_MAIL: MailboxLimits = MailboxLimits { events: 1, bytes: 1 };

pub(crate) async fn current(door: &Door, key: &ExecutionKey) -> Result<Current, Problem> {
    let wanted = Wanted { execution: key.clone(), known: None };
    let loaded = door.stores.executions.load(&[wanted], NO_MAIL).await?.pop();
    let gone = || none(key.execution.as_str());
    let loaded = match loaded {
        Some(Loaded::Found(loaded)) => loaded,
        Some(Loaded::Missing) | None => return Err(gone()),
        Some(Loaded::Corrupt { reason }) => return Err(StoreError::Corrupt(reason).into()),
    };
    let (Some((state, transitions)), Some(blob)) = (loaded.state, loaded.graph) else { return Err(gone()) };
    let folded = heavy(&door.machines.graph_work, blob.len() + transitions.len() * 1024, move || {
        let graph = Some(Arc::new(blob::decode(&blob)?));
        let state = State { graph, ..state };
        Ok(transitions.iter().fold(state, |state, transition| evolve(Some(state), transition)))
    });
    let state = folded.await?.map_err(unreadable)?;
    let graph = state.graph.ok_or_else(|| Problem::new(Kind::Internal, "the graph cannot be read"))?;
    Ok(Current { graph, phase: state.phase })
}
