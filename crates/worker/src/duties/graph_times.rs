//! Measures the duration of graphs, from their creation to their end.
//!
//! A worker that ends a graph does not know its creation time; one read looks it up afterwards for all graphs
//! that ended meanwhile, so that no commit waits for a metric. Graphs that are not measured when a worker
//! stops stay unmeasured.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::ExecutionKey;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::pipeline::ended_graphs::EndedGraphs;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Graphs read in one statement.
const BATCH: usize = 256;

pub(crate) async fn measure_graph_times(
    env: Arc<WorkerEnvironment>,
    graphs: Arc<EndedGraphs>,
) -> Result<(), DutyError> {
    for ended in graphs.take_all().chunks(BATCH) {
        let graphs: Vec<ExecutionKey> = ended.iter().map(|ended| ended.graph.clone()).collect();
        let views = env.stores.execution_views.find_executions(&graphs).await?;
        for (ended, view) in ended.iter().zip(views) {
            let Some(view) = view else { continue };
            let took = ended.at.since(view.created_at).as_secs_f64();
            ::metrics::histogram!(metrics::GRAPH_SECONDS, "status" => ended.phase.as_str()).record(took);
        }
    }
    Ok(())
}
