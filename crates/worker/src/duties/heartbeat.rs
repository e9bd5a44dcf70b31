//! Heartbeat of the worker, for the list of workers. No decision depends on it.

use std::sync::Arc;

use millstream_model::time::Timestamp;
use millstream_store::worker_store::WorkerHeartbeat;

use super::periodic::DutyError;
use crate::leasing::ActionLeasing;
use crate::metrics;
use crate::perform::PerformCalls;

pub(crate) async fn send_heartbeat(
    leasing: Arc<ActionLeasing>,
    calls: Option<Arc<dyn PerformCalls>>,
    started_at: Timestamp,
) -> Result<(), DutyError> {
    let options = &leasing.env.options;
    let in_flight = leasing.slots.in_use() + leasing.node_slots.in_use();
    let id = options.worker.to_string();
    ::metrics::gauge!(metrics::UP, "worker" => id.clone()).set(1.0);
    #[expect(clippy::cast_precision_loss, reason = "bounded by the slots")]
    ::metrics::gauge!(metrics::IN_FLIGHT, "worker" => id).set(in_flight as f64);
    let beat = WorkerHeartbeat {
        worker: options.worker.clone(),
        started_at,
        lanes: options.lanes.iter().map(|lane| lane.number()).collect(),
        in_flight: i32::try_from(in_flight).unwrap_or(i32::MAX),
        version: options.version.clone(),
        calls: calls.iter().flat_map(|calls| calls.action_names()).collect(),
    };
    leasing.env.stores.workers.record_worker_heartbeat(&beat, leasing.env.now()).await?;
    leasing.env.store_outage.record_success();
    Ok(())
}
