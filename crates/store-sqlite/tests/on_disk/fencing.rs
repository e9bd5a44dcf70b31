//! Every call under a lost lease leaves the row unchanged. A `false` alone does not show that: a statement
//! without the epoch could write and still report the truth.

use std::time::Duration;

use millstream_model::status::ExecutionPhase;
use millstream_store::action_store::{
    ActionStore, LeaseHeartbeat, LeasePulse, SettleOutcome, SettleVerdict, Settlement,
};
use millstream_store::event_log::AppendRequest;
use millstream_store::execution_store::{CommitVerdict, LeaseGrant};
use millstream_store::views::ExecutionViews;

use crate::store_fixture::{
    NOW, SqliteDesk, TTL, append, apply, event, execution, grant, raw, start, worker,
};

#[tokio::test]
async fn lost_lease_changes_no_row() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(
        &desk.store,
        &[start(&key, "{}", ExecutionPhase::Active), AppendRequest::Event(event(&key, "{}"))],
    )
    .await;
    let committed = apply(&desk.store, &key, "{}").await;
    let CommitVerdict::Done { leased, .. } = committed else { panic!("{committed:?}") };
    let stale = leased[0].lease.clone();

    let later = NOW.plus(TTL).plus(Duration::from_millis(1));
    let taken = desk.store.lease_each(&[worker()], &grant(10), later).await.unwrap();
    assert_eq!(taken.len(), 1, "the case is void unless another lease was granted");
    desk.shell().execute("UPDATE actions SET input = NULL", ()).unwrap();
    let before = format!("{:?}", desk.store.list_actions(&key, None, 100).await.unwrap());

    let longer = LeaseGrant { ttl: Duration::from_secs(600), ..grant(10) };
    let beat = LeaseHeartbeat { lease: stale.clone(), progress: Some(raw("1")) };
    assert_eq!(
        desk.store.renew_leases(&[beat], &worker(), &longer, later).await.unwrap(),
        [LeasePulse::Lost]
    );
    let leases = std::slice::from_ref(&stale);
    assert_eq!(desk.store.record_inputs(&[(stale.clone(), raw("1"))]).await.unwrap(), [false]);
    desk.store.release_leases(leases, later).await.unwrap();
    let settlement = Settlement {
        lease: stale,
        event_id: leased[0].event_id,
        outcome: SettleOutcome::Succeeded { result: raw("1"), emit: None },
    };
    let settled = desk.store.settle_actions(&worker(), &[settlement], &grant(10), later).await.unwrap();
    assert_eq!(settled.verdicts, [SettleVerdict::Stale]);

    assert_eq!(format!("{:?}", desk.store.list_actions(&key, None, 100).await.unwrap()), before);
}
