//! Removes what has outlived its use, a few rows at a time, one worker at a time, until nothing is left.
//!
//! After each small transaction it pauses for as long as that took: it keeps up with whatever a fleet
//! accepts, and leaves the store to others for half of the time. Its turn is taken again for each.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::housekeeping::Outlived;
use tokio::time::Instant;

use super::every::Undone;
use crate::metrics;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = Duration::from_secs(60);

pub(crate) const DUTY: &str = "retention";
const TURN: Duration = Duration::from_secs(60);
/// Small transactions, so that nobody waits for them.
const ROWS: usize = 200;

pub(crate) async fn purge(worker: Arc<Worker>) -> Result<(), Undone> {
    let (stores, me) = (&worker.deps.stores, &worker.options.worker);
    let now = worker.now();
    let retention = &worker.options.retention;
    let ended = Outlived {
        completed: now.minus(retention.completed),
        failed: now.minus(retention.failed),
        cancelled: now.minus(retention.cancelled),
    };
    let keys = now.minus(retention.keys);
    let untold = now.minus(retention.failed);
    while stores.workers.take_duty(DUTY, me, TURN, worker.now()).await?.is_some() {
        let began = Instant::now();
        let executions = stores.housekeeping.purge_executions(ended, ROWS).await?;
        let keys = stores.housekeeping.purge_keys(keys, ROWS).await?;
        let notices = stores.notices.purge_notices(untold, ROWS).await?;
        ::metrics::counter!(metrics::PURGED, "kind" => "notice").increment(notices);
        ::metrics::counter!(metrics::PURGED, "kind" => "execution").increment(executions);
        ::metrics::counter!(metrics::PURGED, "kind" => "key").increment(keys);
        let runs = stores.housekeeping.purge_runs(ended, ROWS).await?;
        ::metrics::counter!(metrics::PURGED, "kind" => "run").increment(runs);
        if executions + keys + notices + runs == 0 || worker.stop.is_cancelled() {
            stores.workers.finish_duty(DUTY, me, now).await?;
            break;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(began.elapsed()) => {}
            () = worker.stop.cancelled() => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use millstream_core::time::Timestamp;
    use millstream_store::housekeeping::{Housekeeping, Outlived};

    use super::{DUTY, purge};
    use crate::duties::sweep_tests::Bench;

    /// A store with so many executions to remove.
    struct Heap(AtomicU64);

    #[async_trait::async_trait]
    impl Housekeeping for Heap {
        async fn ping(&self) -> millstream_store::Result<Timestamp> {
            Ok(Timestamp::EPOCH)
        }

        async fn purge_executions(&self, _: Outlived, limit: usize) -> millstream_store::Result<u64> {
            let gone = self.0.load(Ordering::SeqCst).min(limit as u64);
            self.0.fetch_sub(gone, Ordering::SeqCst);
            Ok(gone)
        }

        async fn purge_keys(&self, _: Timestamp, _: usize) -> millstream_store::Result<u64> {
            Ok(0)
        }

        async fn purge_runs(&self, _: Outlived, _: usize) -> millstream_store::Result<u64> {
            Ok(0)
        }

        async fn purge_workers(&self, _: Timestamp) -> millstream_store::Result<u64> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn one_turn_removes_all_that_has_outlived_its_time() {
        let (bench, heap) = (Bench::new(), Arc::new(Heap(AtomicU64::new(100_001))));
        purge(bench.worker_on("a", |stores| stores.housekeeping = heap.clone())).await.unwrap();
        assert_eq!(heap.0.load(Ordering::SeqCst), 0);
        assert!(bench.done(DUTY).await.is_some(), "the turn was not given back");
    }

    #[tokio::test]
    async fn a_shutdown_ends_a_turn_early_and_gives_it_back() {
        let (bench, heap) = (Bench::new(), Arc::new(Heap(AtomicU64::new(100_001))));
        bench.stop.cancel();
        purge(bench.worker_on("a", |stores| stores.housekeeping = heap.clone())).await.unwrap();
        assert!(heap.0.load(Ordering::SeqCst) > 99_000);
        assert!(bench.done(DUTY).await.is_some(), "the turn was not given back");
    }
}
