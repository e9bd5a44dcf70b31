//! Gauges of the whole installation, as opposed to this worker.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::backlog_gauges;
use millstream_workflow::graph::NodeStatus;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::metrics;

pub(crate) const PERIOD: Duration = Duration::from_secs(15);

#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
pub(crate) async fn measure_gauges(env: Arc<WorkerEnvironment>) -> Result<(), DutyError> {
    let backlog = env.stores.event_views.count_backlog().await?;
    let oldest = backlog.oldest.map_or(0.0, |oldest| env.now().since(oldest).as_secs_f64());
    ::metrics::gauge!(backlog_gauges::UNDECIDED_EVENTS).set(backlog.undecided as f64);
    ::metrics::gauge!(backlog_gauges::OLDEST_UNDECIDED_SECONDS).set(oldest);
    ::metrics::gauge!(backlog_gauges::DEAD_EVENTS).set(backlog.dead as f64);
    ::metrics::gauge!(backlog_gauges::PAUSED_EXECUTIONS).set(backlog.paused as f64);
    ::metrics::gauge!(backlog_gauges::OPEN_INCIDENTS).set(backlog.incidents as f64);
    ::metrics::gauge!(backlog_gauges::OPEN_ACTIONS).set(backlog.open_actions as f64);
    let graphs = env.stores.graph_views.graph_counts().await?;
    ::metrics::gauge!(metrics::ACTIVE_GRAPHS).set(graphs.active as f64);
    for status in NodeStatus::ALL {
        let nodes = graphs.nodes.get(status).copied().unwrap_or(0);
        ::metrics::gauge!(metrics::NODES, "status" => status.as_str()).set(nodes as f64);
    }
    for lane in env.streams.care.lane_stats().await? {
        let number = lane.lane.number().to_string();
        ::metrics::gauge!(metrics::LANE_PENDING, "lane" => number.clone()).set(lane.pending as f64);
        ::metrics::gauge!(metrics::LANE_LAG, "lane" => number.clone()).set(lane.lag as f64);
        ::metrics::gauge!(metrics::LANE_OVERFLOW, "lane" => number).set(lane.overflow as f64);
    }
    Ok(())
}
