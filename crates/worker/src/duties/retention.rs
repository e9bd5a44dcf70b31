//! Retention: removes outlived rows, a few at a time, one worker at a time, until none is left.
//!
//! After each small transaction it pauses for as long as the transaction took: it keeps up with the fleet's
//! load and leaves the store to others for half of the time. It extends its turn for each transaction.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::housekeeping::RetentionCutoffs;
use tokio::time::Instant;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::metrics;

pub(crate) const PERIOD: Duration = Duration::from_secs(60);

pub(crate) const DUTY: &str = "retention";
const TURN: Duration = Duration::from_secs(60);
/// Small transactions keep the waits of others short.
const ROWS: usize = 200;

pub(crate) async fn purge_outlived(env: Arc<WorkerEnvironment>) -> Result<(), DutyError> {
    let (stores, me) = (&env.stores, &env.options.worker);
    let now = env.now();
    let retention = &env.options.retention;
    let ended = RetentionCutoffs {
        completed: now.minus(retention.completed),
        failed: now.minus(retention.failed),
        cancelled: now.minus(retention.cancelled),
    };
    let keys = now.minus(retention.keys);
    let untold = now.minus(retention.failed);
    // People's work is kept as long as any execution that may have asked for it, and an invalid API key as
    // long as anything that it may have done.
    let longest = ended.completed.min(ended.failed).min(ended.cancelled);
    while stores.workers.take_duty(DUTY, me, TURN, env.now()).await?.is_some() {
        let began = Instant::now();
        let executions = stores.housekeeping.purge_executions(ended, ROWS).await?;
        let keys = stores.housekeeping.purge_keys(keys, ROWS).await?;
        let notices = stores.notices.purge_notices(untold, ROWS).await?;
        ::metrics::counter!(metrics::PURGED, "kind" => "notice").increment(notices);
        let items = stores.items.purge_items(longest, ROWS).await?;
        let dead_keys = stores.keys.purge_dead_keys(longest, ROWS).await?;
        ::metrics::counter!(metrics::PURGED, "kind" => "api_key").increment(dead_keys);
        ::metrics::counter!(metrics::PURGED, "kind" => "execution").increment(executions);
        ::metrics::counter!(metrics::PURGED, "kind" => "item").increment(items);
        ::metrics::counter!(metrics::PURGED, "kind" => "key").increment(keys);
        let runs = stores.housekeeping.purge_runs(ended, ROWS).await?;
        ::metrics::counter!(metrics::PURGED, "kind" => "run").increment(runs);
        if executions + keys + notices + runs + items + dead_keys == 0 || env.stop.is_cancelled() {
            stores.workers.finish_duty(DUTY, me, now).await?;
            break;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(began.elapsed()) => {}
            () = env.stop.cancelled() => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use millstream_model::id::{ItemId, ItemKey, Name, TenantId, WorkerId};
    use millstream_model::raw::RawJson;
    use millstream_model::status::Role;
    use millstream_model::time::Timestamp;
    use millstream_people::assignment::{
        ItemInput, ItemQueueContext, ItemStepOutcome, NewQueueItem, QueueConfig, QueueState, step_item,
    };
    use millstream_store::clock::Clock;
    use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
    use millstream_store::item_store::{ItemCommit, ItemRef};
    use millstream_store::key_store::{KeyChoice, KeyFilter, NewKey};

    use super::{DUTY, purge_outlived};
    use crate::duties::sweep_tests::SweepBench;

    /// A store with this many executions to remove.
    struct PurgeableStore(AtomicU64);

    #[async_trait::async_trait]
    impl Housekeeping for PurgeableStore {
        async fn ping(&self) -> millstream_store::StoreResult<Timestamp> {
            Ok(Timestamp::EPOCH)
        }

        async fn purge_executions(
            &self,
            _: RetentionCutoffs,
            limit: usize,
        ) -> millstream_store::StoreResult<u64> {
            let gone = self.0.load(Ordering::SeqCst).min(limit as u64);
            self.0.fetch_sub(gone, Ordering::SeqCst);
            Ok(gone)
        }

        async fn purge_keys(&self, _: Timestamp, _: usize) -> millstream_store::StoreResult<u64> {
            Ok(0)
        }

        async fn purge_runs(&self, _: RetentionCutoffs, _: usize) -> millstream_store::StoreResult<u64> {
            Ok(0)
        }

        async fn purge_workers(&self, _: Timestamp) -> millstream_store::StoreResult<u64> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn retention_removes_all_outlived_executions() {
        let (bench, heap) = (SweepBench::new(), Arc::new(PurgeableStore(AtomicU64::new(100_001))));
        purge_outlived(bench.worker_on("a", |stores| stores.housekeeping = heap.clone())).await.unwrap();
        assert_eq!(heap.0.load(Ordering::SeqCst), 0);
        assert!(bench.done(DUTY).await.is_some(), "the turn was not given back");
    }

    #[tokio::test]
    async fn retention_removes_only_ended_items() {
        let bench = SweepBench::new();
        let stores = &bench.memory;
        let (tenant, then) = (TenantId::default_tenant(), bench.clock.now());
        let queue = QueueConfig::with_defaults(Name::parse("q").unwrap());
        stores.queues.put_queue(&tenant, &queue, then).await.unwrap();
        let ids = ["ended", "open"].map(|id| ItemId::parse(id).unwrap());
        let new = ids.clone().map(|id| NewQueueItem::with_defaults(id, RawJson::null()));
        stores.items.import_items(&tenant, &queue.name, &new, then).await.unwrap();
        let [ended, open] = ids.map(|item| ItemRef::Item(ItemKey { tenant: tenant.clone(), item }));
        let loaded = stores.items.load_items(std::slice::from_ref(&ended)).await.unwrap().remove(0).unwrap();
        let setting = ItemQueueContext { queue: &queue, state: QueueState::Active, escalates_to: None };
        let input = ItemInput::Withdraw { reason: None, by: None };
        let Ok(ItemStepOutcome::Changed(change)) = step_item(&loaded.work, setting, &input, then) else {
            panic!()
        };
        let commit = ItemCommit::of(&loaded, *change, None);
        let settler = WorkerId::parse("w").unwrap();
        stores.items.commit_items(&settler, &[commit], then).await.unwrap();
        bench.clock.advance(Duration::from_secs(31 * 86_400));
        purge_outlived(bench.worker_on("a", |_| {})).await.unwrap();
        let left = stores.items.load_items(&[ended, open]).await.unwrap();
        assert_eq!(left.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    }

    #[tokio::test]
    async fn retention_removes_revoked_api_keys() {
        let bench = SweepBench::new();
        let keys = &bench.memory.keys;
        for (n, name) in [(1, "old"), (2, "newest")] {
            let key = NewKey::for_tenant(TenantId::default_tenant(), name, Role::Admin, [n; 32]);
            keys.create_key(&key, bench.clock.now()).await.unwrap();
            let which = KeyChoice::Name(name.to_owned());
            keys.revoke_key(Some(&TenantId::default_tenant()), &which, bench.clock.now()).await.unwrap();
            bench.clock.advance(Duration::from_secs(1));
        }
        bench.clock.advance(Duration::from_secs(31 * 86_400));
        purge_outlived(bench.worker_on("a", |_| {})).await.unwrap();
        let left = keys.list_keys(&KeyFilter::All, None, 10).await.unwrap();
        assert_eq!(left.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["newest"]);
        assert!(keys.keys_exist().await.unwrap());
    }

    #[tokio::test]
    async fn shutdown_ends_retention_turn_early() {
        let (bench, heap) = (SweepBench::new(), Arc::new(PurgeableStore(AtomicU64::new(100_001))));
        bench.stop.cancel();
        purge_outlived(bench.worker_on("a", |stores| stores.housekeeping = heap.clone())).await.unwrap();
        assert!(heap.0.load(Ordering::SeqCst) > 99_000);
        assert!(bench.done(DUTY).await.is_some(), "the turn was not given back");
    }
}
