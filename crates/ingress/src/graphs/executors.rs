//! Registry of executors: they perform nodes, and announce themselves with heartbeats.

use std::time::Duration;

use millstream_model::id::{Name, TenantId};
use millstream_model::quota::CountedQuota;
use millstream_model::time::Timestamp;
use millstream_store::executor_store::RegisteredExecutor;

use super::GraphDeps;
use crate::refusal::RequestRefusal;

/// Heartbeat interval of an executor.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// An executor that missed this many heartbeats is considered gone.
const MISSED: u32 = 3;

/// Registers an executor, or records its heartbeat.
pub(crate) async fn register_executor(
    deps: &GraphDeps,
    executor: RegisteredExecutor,
) -> Result<(), RequestRefusal> {
    let known = async {
        let all = deps.stores.executors.list_executors_of(&executor.tenant, Timestamp::EPOCH).await?;
        Ok(all.iter().any(|(one, _)| one.name == executor.name))
    };
    deps.admission.admit_known(&executor.tenant, CountedQuota::Executors, known).await?;
    Ok(deps.stores.executors.record_executor_heartbeats(&[executor], deps.clock.now()).await?)
}

/// Removes the executor from the registry.
pub(crate) async fn retire_executor(
    deps: &GraphDeps,
    tenant: &TenantId,
    name: &Name,
) -> Result<(), RequestRefusal> {
    Ok(deps.stores.executors.retire_executors(&[(tenant.clone(), name.clone())]).await?)
}

/// Executors with a recent heartbeat, ordered by name.
pub(crate) async fn list_executors(
    deps: &GraphDeps,
    tenant: &TenantId,
) -> Result<Vec<(RegisteredExecutor, Timestamp)>, RequestRefusal> {
    let since = deps.clock.now().minus(BEAT_EVERY * MISSED);
    Ok(deps.stores.executors.list_executors_of(tenant, since).await?)
}
