//! Brings right what the stream counts of tenants' doorbells, and moves up overflow that was left behind.
//!
//! Every worker does it: there is little to do where nothing is wrong, and no turn has to be taken for it.

use std::sync::Arc;
use std::time::Duration;

use super::every::Undone;
use crate::worker::Worker;

/// Well within ten seconds.
pub(crate) const PERIOD: Duration = Duration::from_secs(3);

pub(crate) async fn recount(worker: Arc<Worker>) -> Result<(), Undone> {
    Ok(worker.deps.streams.care.recount().await?)
}
