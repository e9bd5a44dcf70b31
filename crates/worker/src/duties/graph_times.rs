//! Measures the duration of graphs, from their creation to their end.
//!
//! A worker that ends a graph does not know its creation time; one read looks it up afterwards for all graphs
//! that ended meanwhile, so that no commit waits for a metric. Graphs that are not measured when a worker
//! stops stay unmeasured.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_model::id::ExecutionKey;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;

use super::periodic::DutyError;
use crate::context::WorkerContext;
use crate::metrics;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Graphs read in one statement.
const BATCH: usize = 256;
/// Upper bound per period; further graphs are not measured.
const MOST: usize = 4096;

/// Graphs that have ended and are not measured yet.
#[derive(Debug, Default)]
pub(crate) struct EndedGraphs(Mutex<Vec<EndedGraph>>);

#[derive(Debug)]
struct EndedGraph {
    graph: ExecutionKey,
    phase: ExecutionPhase,
    at: Timestamp,
}

impl EndedGraphs {
    pub(crate) fn add_graph(&self, graph: ExecutionKey, phase: ExecutionPhase, at: Timestamp) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() < MOST {
            ended.push(EndedGraph { graph, phase, at });
        }
    }

    fn take_all(&self) -> Vec<EndedGraph> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) async fn measure_graph_times(worker: Arc<WorkerContext>) -> Result<(), DutyError> {
    for ended in worker.ended_graphs.take_all().chunks(BATCH) {
        let graphs: Vec<ExecutionKey> = ended.iter().map(|ended| ended.graph.clone()).collect();
        let views = worker.deps.stores.execution_views.find_executions(&graphs).await?;
        for (ended, view) in ended.iter().zip(views) {
            let Some(view) = view else { continue };
            let took = ended.at.since(view.created_at).as_secs_f64();
            ::metrics::histogram!(metrics::GRAPH_SECONDS, "status" => ended.phase.as_str()).record(took);
        }
    }
    Ok(())
}
