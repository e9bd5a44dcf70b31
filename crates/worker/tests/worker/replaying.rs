//! Replay: compares the log with the stored state.

use std::sync::Arc;

use millstream_model::id::{EventId, ExecutionKey, Seq, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::execution_store::{
    CommitVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest, LoadVerdict, MailboxLimits,
};
use millstream_worker::replay::{ReplayError, ReplayUntil, redecide_execution, replay_execution};

use crate::bench::{COUNTER, WorkerBench, key};

/// Returns a snapshot that was tampered with.
struct TamperedStore(Arc<dyn ExecutionStore>);

#[async_trait::async_trait]
impl ExecutionStore for TamperedStore {
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> StoreResult<Vec<LoadVerdict>> {
        let mut all = self.0.load_executions(wanted, limits).await?;
        for loaded in &mut all {
            if let LoadVerdict::Found(found) = loaded
                && let Some((snapshot, _)) = &mut found.state
            {
                snapshot.context.insert("total".to_owned(), RawJson::parse("1000000").unwrap());
            }
        }
        Ok(all)
    }

    async fn commit_executions(
        &self,
        w: &WorkerId,
        b: &[ExecutionCommit],
        l: &LeaseGrant,
        n: Timestamp,
    ) -> StoreResult<Vec<CommitVerdict>> {
        self.0.commit_executions(w, b, l, n).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> StoreResult<Vec<i32>> {
        self.0.count_attempts(events).await
    }
}

async fn counted(bench: &WorkerBench) -> ExecutionKey {
    bench.define(COUNTER).await;
    let _worker = bench.worker();
    let key = bench.start("counter", "a").await;
    for n in 0..5 {
        bench.send(&key, "add", &format!(r#"{{"n":{n}}}"#)).await;
    }
    bench.until_done().await;
    key
}

#[tokio::test]
async fn replay_folds_log_to_snapshot() {
    let bench = WorkerBench::new();
    let key = counted(&bench).await;
    let replayed = replay_execution(&bench.stores, &key, ReplayUntil::End).await.unwrap();
    assert_eq!(replayed.mismatches, []);
    assert_eq!(replayed.transitions, 6);
    assert_eq!(replayed.state, bench.execution(&key).await.state);
}

#[tokio::test]
async fn replay_detects_tampered_snapshot() {
    let bench = WorkerBench::new();
    let key = counted(&bench).await;
    let mut stores = bench.stores.clone();
    stores.executions = Arc::new(TamperedStore(stores.executions.clone()));
    let replayed = replay_execution(&stores, &key, ReplayUntil::End).await.unwrap();
    let found: Vec<_> =
        replayed.mismatches.iter().map(|m| (m.what.as_str(), m.log.as_str(), m.stored.as_str())).collect();
    assert_eq!(found, [("context.total", "5", "1000000")]);
}

#[tokio::test]
async fn replay_shows_past_state() {
    let bench = WorkerBench::new();
    let key = counted(&bench).await;
    let past = replay_execution(&bench.stores, &key, ReplayUntil::Seq(Seq(3))).await.unwrap();
    assert_eq!((past.state.seq, past.state.context["total"].as_str()), (Seq(3), "2"));
    let beyond = replay_execution(&bench.stores, &key, ReplayUntil::Seq(Seq(99))).await;
    assert!(matches!(beyond, Err(ReplayError::BeyondTheEnd(_, Seq(99)))), "{beyond:?}");
}

#[tokio::test]
async fn redeciding_finds_no_difference() {
    let bench = WorkerBench::new();
    let key = counted(&bench).await;
    assert_eq!(redecide_execution(&bench.stores, &key).await.unwrap(), []);
}

#[tokio::test]
async fn replay_of_missing_execution_fails() {
    let bench = WorkerBench::new();
    let missing = replay_execution(&bench.stores, &key("missing"), ReplayUntil::End).await;
    assert!(matches!(missing, Err(ReplayError::NotFound(_))), "{missing:?}");
}
