//! An engine that is alone on its store takes over from one that died.
//!
//! Workers say that they are up before they take on work, and say goodbye when they end; one that is
//! still in the list when nobody can be up has died. Its turns at duties are given back, so that nobody
//! waits for them to run out, and it is struck off. Refuses to be used in a fleet, where the list holds
//! the living too.

use millstream_core::time::Timestamp;
use millstream_store::{StoreError, Stores};

use crate::duties::{overdue, publish, retention, ring_all};

/// How many workers died. Only for a process that holds the store to itself, before it starts any.
pub async fn succeed_the_dead(stores: &Stores) -> Result<usize, StoreError> {
    let dead = stores.workers.workers(Timestamp::EPOCH).await?;
    for worker in dead.iter().map(|view| &view.beat.worker) {
        for duty in [overdue::DUTY, publish::DUTY, ring_all::DUTY, ring_all::GENERATION, retention::DUTY] {
            // A duty that it was at is not done, whenever it was done before.
            stores.workers.finish_duty(duty, worker, Timestamp::EPOCH).await?;
        }
        stores.workers.leave(worker).await?;
    }
    Ok(dead.len())
}
