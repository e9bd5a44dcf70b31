//! Registry of executors: they perform nodes, and announce themselves with heartbeats.

use std::time::Duration;

use millstream_model::id::{Name, TenantId};
use millstream_model::quota::CountedQuota;
use millstream_model::time::Timestamp;
use millstream_store::executor_store::RegisteredExecutor;

use crate::http::problem::ApiProblem;
use crate::state::IngressState;

/// Heartbeat interval of an executor.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// An executor that missed this many heartbeats is considered gone.
const MISSED: u32 = 3;

/// Registers an executor, or records its heartbeat.
pub(crate) async fn register_executor(
    door: &IngressState,
    executor: RegisteredExecutor,
) -> Result<(), ApiProblem> {
    let known = async {
        let all = door.stores.executors.list_executors_of(&executor.tenant, Timestamp::EPOCH).await?;
        Ok(all.iter().any(|(one, _)| one.name == executor.name))
    };
    door.admit_known(&executor.tenant, CountedQuota::Executors, known).await?;
    Ok(door.stores.executors.record_executor_heartbeats(&[executor], door.clock.now()).await?)
}

/// Removes the executor from the registry.
pub(crate) async fn retire_executor(
    door: &IngressState,
    tenant: &TenantId,
    name: &Name,
) -> Result<(), ApiProblem> {
    Ok(door.stores.executors.retire_executors(&[(tenant.clone(), name.clone())]).await?)
}

/// Executors with a recent heartbeat, ordered by name.
pub(crate) async fn list_executors(
    door: &IngressState,
    tenant: &TenantId,
) -> Result<Vec<(RegisteredExecutor, Timestamp)>, ApiProblem> {
    let since = door.clock.now().minus(BEAT_EVERY * MISSED);
    Ok(door.stores.executors.list_executors_of(tenant, since).await?)
}
