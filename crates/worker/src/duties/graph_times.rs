//! Measures the duration of graphs, from their creation to their end.
//!
//! A worker that ends a graph does not know its creation time; one read looks it up afterwards for all graphs
//! that ended meanwhile, so that no commit waits for a metric. Graphs that are not measured when a worker
//! stops stay unmeasured.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_core::id::ExecutionKey;
use millstream_core::status::Phase;
use millstream_core::time::Timestamp;

use super::every::Undone;
use crate::metrics;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Graphs read in one statement.
const BATCH: usize = 256;
/// Upper bound per period; further graphs are not measured.
const MOST: usize = 4096;

/// Graphs that have ended and are not measured yet.
#[derive(Debug, Default)]
pub(crate) struct EndedGraphs(Mutex<Vec<Ended>>);

#[derive(Debug)]
struct Ended {
    graph: ExecutionKey,
    phase: Phase,
    at: Timestamp,
}

impl EndedGraphs {
    pub(crate) fn add(&self, graph: ExecutionKey, phase: Phase, at: Timestamp) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() < MOST {
            ended.push(Ended { graph, phase, at });
        }
    }

    fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) async fn measure(worker: Arc<Worker>) -> Result<(), Undone> {
    for ended in worker.ended_graphs.take().chunks(BATCH) {
        let graphs: Vec<ExecutionKey> = ended.iter().map(|ended| ended.graph.clone()).collect();
        let views = worker.deps.stores.execution_views.executions(&graphs).await?;
        for (ended, view) in ended.iter().zip(views) {
            let Some(view) = view else { continue };
            let took = ended.at.since(view.created_at).as_secs_f64();
            ::metrics::histogram!(metrics::GRAPH_SECONDS, "status" => ended.phase.as_str()).record(took);
        }
    }
    Ok(())
}
