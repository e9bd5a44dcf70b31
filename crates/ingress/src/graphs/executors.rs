//! Who is there to perform nodes: they say so themselves, again and again.

use std::time::Duration;

use millstream_core::id::{Name, TenantId};
use millstream_core::quota::CountedQuota;
use millstream_core::time::Timestamp;
use millstream_store::executor_store::Executor;

use crate::door::Door;
use crate::http::problem::Problem;

/// How often an executor says that it is there.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Those who missed this many beats are gone.
const MISSED: u32 = 3;

/// Makes it known, or hears from it again.
pub(crate) async fn register(door: &Door, executor: Executor) -> Result<(), Problem> {
    let known = async {
        let all = door.stores.executors.executors_of(&executor.tenant, Timestamp::EPOCH).await?;
        Ok(all.iter().any(|(one, _)| one.name == executor.name))
    };
    door.admit_known(&executor.tenant, CountedQuota::Executors, known).await?;
    Ok(door.stores.executors.beat_executors(&[executor], door.clock.now()).await?)
}

/// Takes it off the list, if it is on it.
pub(crate) async fn retire(door: &Door, tenant: &TenantId, name: &Name) -> Result<(), Problem> {
    Ok(door.stores.executors.retire_executors(&[(tenant.clone(), name.clone())]).await?)
}

/// Those that were heard of lately, in the order of their names.
pub(crate) async fn list(door: &Door, tenant: &TenantId) -> Result<Vec<(Executor, Timestamp)>, Problem> {
    let since = door.clock.now().minus(BEAT_EVERY * MISSED);
    Ok(door.stores.executors.executors_of(tenant, since).await?)
}
