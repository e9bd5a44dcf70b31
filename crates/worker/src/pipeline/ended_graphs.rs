//! The graphs that this worker has ended and whose duration is not measured yet.
//!
//! The commit that ends a graph only adds it; a duty reads the creation times later, for many at once.

use std::sync::{Mutex, PoisonError};

use millstream_model::id::ExecutionKey;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;

/// Upper bound per period; further graphs are not measured.
const MOST: usize = 4096;

/// Graphs that have ended and are not measured yet.
#[derive(Debug, Default)]
pub(crate) struct EndedGraphs(Mutex<Vec<EndedGraph>>);

#[derive(Debug)]
pub(crate) struct EndedGraph {
    pub(crate) graph: ExecutionKey,
    pub(crate) phase: ExecutionPhase,
    pub(crate) at: Timestamp,
}

impl EndedGraphs {
    pub(crate) fn add_graph(&self, graph: ExecutionKey, phase: ExecutionPhase, at: Timestamp) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() < MOST {
            ended.push(EndedGraph { graph, phase, at });
        }
    }

    pub(crate) fn take_all(&self) -> Vec<EndedGraph> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
