//! Recovery after a crash of an embedded engine, which is alone on its store.
//!
//! Workers register before they take on work and deregister when they end; a worker that is still registered
//! when none can be up has died. Its leases on duties are released, so that the new process does not wait for
//! them to run out, and its row is removed. Not for a fleet, where the list also holds live workers.

use millstream_model::time::Timestamp;
use millstream_store::{StoreError, Stores};

use super::LEASED_DUTIES;

/// Number of dead workers. Only for a process that has the store to itself, before it starts a worker.
pub async fn release_duties_of_dead_workers(stores: &Stores) -> Result<usize, StoreError> {
    let dead = stores.workers.list_workers(Timestamp::EPOCH).await?;
    for worker in dead.iter().map(|view| &view.beat.worker) {
        for duty in LEASED_DUTIES {
            // An unfinished duty counts as not done, even if it was done before.
            stores.workers.finish_duty(duty, worker, Timestamp::EPOCH).await?;
        }
        stores.workers.deregister_worker(worker).await?;
    }
    Ok(dead.len())
}
