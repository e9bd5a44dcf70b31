//! Compensation: completed actions are undone in reverse order, then the failure is reported.

use millstream_model::action_queue::ActionQueue;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_store::action_store::{AfterFailure, LeasedAction, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::execution_store::LeaseGrant;
use millstream_workflow::lease_policy::LeasePolicy;

use crate::ConformanceBench;
use crate::commit_builder::{ready, standby, waiting};
use crate::fixture::{event, execution, grant, name, raw, worker};
use crate::settle::{fail, fail_and_tell, settle, succeed};

pub(crate) fn compensate(action: &LeasedAction) -> Settlement {
    let outcome =
        SettleOutcome::Failed { error: raw(r#"{"class":"status"}"#), then: AfterFailure::Compensate };
    Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome }
}

pub async fn undo_runs_in_reverse_before_report(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [
        ready("reserve"),
        ready("charge"),
        waiting("ship", &["charge"]),
        standby("release", "reserve"),
        standby("refund", "charge"),
    ];
    let (id, _, done) = bench.acting(&key, &actions, grant(3)).await;
    let [reserve, charge] = &done.leased[..] else { panic!("{:?}", done.leased) };
    let freed = settle(&bench, vec![succeed(charge, r#"{"paid": 1}"#)], grant(1)).await;
    let [ship] = &freed.leased[..] else { panic!("{:?}", freed.leased) };
    bench.passed(bench.now().await).await;
    settle(&bench, vec![succeed(reserve, "2")], grant(0)).await;
    let failed = settle(&bench, vec![compensate(ship)], grant(5)).await;
    assert_eq!(failed.verdicts, [SettleVerdict::Recorded { event: EventStatus::Processing }]);
    let [release] = &failed.leased[..] else { panic!("{:?}", failed.leased) };
    assert_eq!(release.lease.key.action, name("release"));
    assert_eq!(release.results, [(name("reserve"), raw("2"))].into());
    assert_eq!(release.scope, Some(raw(r#"{"context":{"n":1.50}}"#)));
    let next = settle(&bench, vec![succeed(release, "3")], grant(5)).await;
    let [refund] = &next.leased[..] else { panic!("{:?}", next.leased) };
    assert_eq!(refund.lease.key.action, name("refund"));
    assert_eq!(refund.results[&name("charge")], raw(r#"{"paid": 1}"#));
    let last = settle(&bench, vec![succeed(refund, "4")], grant(5)).await;
    let [closing] = &last.leased[..] else { panic!("{:?}", last.leased) };
    assert_eq!(closing.lease.key.action, name("ship"));
    assert_eq!(closing.closing, Some(raw(r#"{"class":"status"}"#)));
    assert_eq!(closing.attempt, 1, "reporting is no attempt");
    let told = event(&bench, &key, "refused");
    let over = settle(&bench, vec![fail_and_tell(closing, told.clone())], grant(0)).await;
    assert_eq!(over.verdicts, [SettleVerdict::Recorded { event: EventStatus::Completed }]);
    assert_eq!(bench.mailbox(&key).await, [told.event_id]);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    let ship = bench.action(&key, "ship").await;
    assert_eq!((ship.status, ship.attempts), (ActionStatus::Failed, 1));
    assert_eq!(ship.needs, [name("charge")], "its dependencies, not the undo actions");
}

/// By leasing, by settling, and given back on a drain.
pub async fn reporting_failure_counts_no_attempt(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let told = settle(&bench, vec![compensate(&done.leased[0])], grant(1)).await;
    assert_eq!(told.leased[0].attempt, 1);
    let leases = [told.leased[0].lease.clone()];
    bench.stores.actions.release_leases(&leases, bench.now().await).await.unwrap();
    assert_eq!(bench.action(&key, "a").await.attempts, 1);
    let now = bench.now().await;
    let found = bench.stores.actions.lease(&worker("w2"), &grant(5), now).await.unwrap();
    assert_eq!((found.len(), found[0].attempt), (1, 1));
    assert_eq!(bench.action(&key, "a").await.attempts, 1);
}

/// `c` had not begun when `b` failed. Later retries do not need it any more.
pub async fn action_skipped_for_undo_stays_skipped(bench: ConformanceBench) {
    for by_event in [true, false] {
        let key = execution(if by_event { "by-event" } else { "by-incident" });
        let actions = [ready("a"), ready("b"), ready("c"), standby("undo-a", "a")];
        let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
        let [a, b] = &done.leased[..] else { panic!("{:?}", done.leased) };
        settle(&bench, vec![succeed(a, "1")], grant(0)).await;
        let failed = settle(&bench, vec![compensate(b)], grant(5)).await;
        assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Skipped);
        settle(&bench, vec![fail(&failed.leased[0], "no undo")], grant(0)).await;
        let by = millstream_store::intervention::DecisionRecord { actor: None, reason: None };
        let now = bench.now().await;
        if by_event {
            bench.stores.interventions.retry_event(&key.tenant, id, &by, now).await.unwrap();
        } else {
            let filter = millstream_store::incidents::IncidentFilter {
                execution: Some(key.execution.clone()),
                ..Default::default()
            };
            let found = bench.stores.incidents.list_incidents(&key.tenant, &filter, None, 9).await.unwrap();
            let retry = [(found[0].id, millstream_store::incidents::IncidentDecision::Retry)];
            bench.stores.incidents.resolve_incidents(&key.tenant, &retry, &by, now).await.unwrap();
        }
        let again = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
        let [undo] = &again[..] else { panic!("{again:?}") };
        assert_eq!(undo.lease.key.action, name("undo-a"));
        let last = settle(&bench, vec![succeed(undo, "1")], grant(5)).await;
        let [closing] = &last.leased[..] else { panic!("{:?}", last.leased) };
        assert!(closing.closing.is_some());
        assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Skipped);
    }
}

pub async fn undo_awaits_running_skips_unbegun(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), ready("c"), standby("undo-b", "b")];
    let (_, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let [a, b] = &done.leased[..] else { panic!("{:?}", done.leased) };
    let failed = settle(&bench, vec![compensate(a)], grant(5)).await;
    assert_eq!((failed.leased.len(), failed.unleased), (0, 0));
    assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Skipped);
    let settled = settle(&bench, vec![succeed(b, "1")], grant(5)).await;
    assert_eq!(settled.leased[0].lease.key.action, name("undo-b"));
}

pub async fn unused_undo_action_blocks_nothing(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a"), standby("undo-a", "a")], grant(5)).await;
    assert_eq!(done.leased.len(), 1);
    settle(&bench, vec![succeed(&done.leased[0], "1")], grant(5)).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    assert_eq!(bench.action(&key, "undo-a").await.status, ActionStatus::Standby);
}

pub async fn failed_undo_waits_for_person_then_continues(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), standby("undo-a", "a")];
    let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let [a, b] = &done.leased[..] else { panic!("{:?}", done.leased) };
    settle(&bench, vec![succeed(a, "1")], grant(0)).await;
    let failed = settle(&bench, vec![compensate(b)], grant(5)).await;
    settle(&bench, vec![fail(&failed.leased[0], "no undo")], grant(0)).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    let by = millstream_store::intervention::DecisionRecord { actor: None, reason: None };
    bench.stores.interventions.retry_event(&key.tenant, id, &by, bench.now().await).await.unwrap();
    let lease = |bench: ConformanceBench| async move {
        let now = bench.now().await;
        bench.stores.actions.lease(&crate::fixture::worker("w2"), &grant(5), now).await.unwrap()
    };
    let undo = lease(bench.clone()).await.remove(0);
    assert_eq!(undo.lease.key.action, name("undo-a"));
    let settled = settle(&bench, vec![succeed(&undo, "1")], grant(5)).await;
    assert_eq!(settled.leased[0].lease.key.action, name("b"));
    assert!(settled.leased[0].closing.is_some());
}

pub async fn failure_report_uses_engine_queue(bench: ConformanceBench) {
    let key = execution("one");
    let queue = ActionQueue::call_for_all(&name("charge"));
    let terms = LeasePolicy { queue: queue.clone(), ..LeasePolicy::engine_for_all() };
    let serving = LeaseGrant { queues: [queue].into(), ..grant(1) };
    let (_, _, done) = bench.acting(&key, &[ready("charge").on(terms)], serving).await;
    settle(&bench, vec![compensate(&done.leased[0])], grant(0)).await;
    let now = bench.now().await;
    let found = bench.stores.actions.lease(&worker("w2"), &grant(5), now).await.unwrap();
    let [closing] = &found[..] else { panic!("{found:?}") };
    assert!(closing.closing.is_some());
}
