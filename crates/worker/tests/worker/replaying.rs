//! Replay: compares the log with the stored state.

use std::sync::Arc;

use millstream_core::id::{EventId, ExecutionKey, Seq, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::execution_store::{
    Commit, Committed, ExecutionStore, LeaseGrant, Loaded, MailboxLimits, Wanted,
};
use millstream_worker::replay::{ReplayError, Until, redecide, replay};

use crate::bench::{Bench, COUNTER, key};

/// Returns a snapshot that was tampered with.
struct Tampered(Arc<dyn ExecutionStore>);

#[async_trait::async_trait]
impl ExecutionStore for Tampered {
    async fn load(&self, wanted: &[Wanted], limits: MailboxLimits) -> Result<Vec<Loaded>> {
        let mut all = self.0.load(wanted, limits).await?;
        for loaded in &mut all {
            if let Loaded::Found(found) = loaded
                && let Some((snapshot, _)) = &mut found.state
            {
                snapshot.context.insert("total".to_owned(), RawJson::parse("1000000").unwrap());
            }
        }
        Ok(all)
    }

    async fn commit(
        &self,
        w: &WorkerId,
        b: &[Commit],
        l: &LeaseGrant,
        n: Timestamp,
    ) -> Result<Vec<Committed>> {
        self.0.commit(w, b, l, n).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> Result<Vec<i32>> {
        self.0.count_attempts(events).await
    }
}

async fn counted(bench: &Bench) -> ExecutionKey {
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
async fn the_log_folds_to_the_snapshot() {
    let bench = Bench::new();
    let key = counted(&bench).await;
    let replayed = replay(&bench.stores, &key, Until::End).await.unwrap();
    assert_eq!(replayed.mismatches, []);
    assert_eq!(replayed.transitions, 6);
    assert_eq!(replayed.state, bench.execution(&key).await.state);
}

#[tokio::test]
async fn a_tampered_snapshot_is_found_and_named() {
    let bench = Bench::new();
    let key = counted(&bench).await;
    let mut stores = bench.stores.clone();
    stores.executions = Arc::new(Tampered(stores.executions.clone()));
    let replayed = replay(&stores, &key, Until::End).await.unwrap();
    let found: Vec<_> =
        replayed.mismatches.iter().map(|m| (m.what.as_str(), m.log.as_str(), m.stored.as_str())).collect();
    assert_eq!(found, [("context.total", "5", "1000000")]);
}

#[tokio::test]
async fn the_past_can_be_seen() {
    let bench = Bench::new();
    let key = counted(&bench).await;
    let past = replay(&bench.stores, &key, Until::Seq(Seq(3))).await.unwrap();
    assert_eq!((past.state.seq, past.state.context["total"].as_str()), (Seq(3), "2"));
    let beyond = replay(&bench.stores, &key, Until::Seq(Seq(99))).await;
    assert!(matches!(beyond, Err(ReplayError::BeyondTheEnd(_, Seq(99)))), "{beyond:?}");
}

#[tokio::test]
async fn deciding_again_gives_the_same() {
    let bench = Bench::new();
    let key = counted(&bench).await;
    assert_eq!(redecide(&bench.stores, &key).await.unwrap(), []);
}

#[tokio::test]
async fn an_execution_that_does_not_exist_is_an_error() {
    let bench = Bench::new();
    let missing = replay(&bench.stores, &key("missing"), Until::End).await;
    assert!(matches!(missing, Err(ReplayError::NotFound(_))), "{missing:?}");
}
