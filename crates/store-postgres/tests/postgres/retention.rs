//! Concurrent retention and acceptance: accepted events are not removed.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use millstream_store::event_log::{AppendRequest, Appended, EventLog};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_store::views::EventViews;

use crate::support::{PostgresFixture, event};

const ROUNDS: usize = 30;
const EXECUTIONS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purge_loses_no_concurrently_accepted_event() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let (mut purged, mut kept) = (0, 0);
    for round in 0..ROUNDS {
        let now = store.ping().await.unwrap();
        let keys = fixture.ended(EXECUTIONS, &format!("r{round}"), now).await;
        let purge =
            store.purge_executions(RetentionCutoffs::uniform(now.plus(Duration::from_secs(60))), EXECUTIONS);
        // In reverse: the purge has chosen the last ones at its beginning and locks them at its end.
        let append = stream::iter(keys.iter().rev())
            .map(|key| async move {
                let sent = event(key, "late");
                let verdict =
                    store.append(&[AppendRequest::Event(sent.clone())], now).await.unwrap().remove(0);
                (sent, verdict)
            })
            .buffer_unordered(8)
            .collect::<Vec<_>>();
        let (gone, appended) = tokio::join!(purge, append);
        purged += gone.unwrap();
        for (sent, verdict) in appended {
            let found = store.find_events(&[(sent.execution.tenant.clone(), sent.event_id)]).await.unwrap();
            match verdict {
                Appended::Accepted { .. } => {
                    kept += 1;
                    assert!(found[0].is_some(), "round {round}: accepted for {} and lost", sent.execution);
                }
                Appended::NoExecution => {}
                other @ (Appended::Repeat { .. }
                | Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. }
                | Appended::Mismatch) => panic!("{other:?}"),
            }
        }
    }
    assert!(purged > 0 && kept > 0, "purge and acceptance never overlapped: {purged} purged, {kept} kept");
    fixture.assert_no_deadlock().await;
}
