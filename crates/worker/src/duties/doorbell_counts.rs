//! Corrects the stream's counts of doorbells per tenant, and moves stranded overflow into the lanes.
//!
//! Every worker does it: there is little to do in a correct stream, and it needs no lease on the duty.

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;

/// Well within ten seconds.
pub(crate) const PERIOD: Duration = Duration::from_secs(3);

pub(crate) async fn recount_doorbells(env: Arc<WorkerEnvironment>) -> Result<(), DutyError> {
    Ok(env.streams.care.recount_tenants().await?)
}
