//! Deadlines of a schedule: when they apply, when they do not, and when they restart.

use millstream_model::action_queue::ActionQueue;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_store::action_store::{LeasedAction, SettleOutcome, Settlement};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::{IncidentDecision, IncidentFilter, ResolveVerdict};
use millstream_store::intervention::DecisionRecord;
use millstream_workflow::lease_policy::LeasePolicy;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready, standby, waiting};
use crate::fixture::{HOUR, LONG, SHORT, execution, grant, name, tenant, worker};
use crate::settle::{fail, retry, settle, succeed};
use crate::undo::compensate;

fn charge() -> ActionQueue {
    ActionQueue::call_for_all(&name("charge"))
}

fn terms() -> LeasePolicy {
    LeasePolicy { queue: charge(), ..LeasePolicy::engine_for_all() }
}

async fn lease(bench: &ConformanceBench) -> Vec<LeasedAction> {
    let grant = LeaseGrant { slots: 5, ttl: LONG, queues: [charge()].into() };
    bench.stores.actions.lease(&worker("w2"), &grant, bench.now().await).await.unwrap()
}

async fn overdue(bench: &ConformanceBench) -> Vec<LeasedAction> {
    bench.stores.tasks.lease_overdue(&worker("w1"), &grant(5), bench.now().await).await.unwrap()
}

/// An action under this policy, and a lease on it.
async fn begun(bench: &ConformanceBench, terms: LeasePolicy) -> LeasedAction {
    bench.acting(&execution("one"), &[ready("a").on(terms), ready("b")], grant(0)).await;
    lease(bench).await.remove(0)
}

pub async fn begun_action_never_misses_start_again(bench: ConformanceBench) {
    let first = begun(&bench, LeasePolicy { start: Some(SHORT), ..terms() }).await;
    let now = bench.now().await;
    settle(&bench, vec![retry(&first, now.plus(HOUR))], grant(0)).await;
    bench.passed(first.ready_at.plus(SHORT)).await;
    assert!(overdue(&bench).await.is_empty());
}

pub async fn released_unbegun_action_keeps_start_deadline(bench: ConformanceBench) {
    let first = begun(&bench, LeasePolicy { start: Some(SHORT), ..terms() }).await;
    bench.stores.actions.release_leases(&[first.lease.clone()], bench.now().await).await.unwrap();
    bench.passed(first.ready_at.plus(SHORT)).await;
    let found = overdue(&bench).await;
    let shape: Vec<_> = found.iter().map(|action| (action.attempt, action.ready_at)).collect();
    assert_eq!(shape, [(0, first.ready_at)]);
}

pub async fn postponed_unbegun_action_keeps_start_deadline(bench: ConformanceBench) {
    let first = begun(&bench, LeasePolicy { start: Some(SHORT), ..terms() }).await;
    let outcome = SettleOutcome::Postponed { at: bench.now().await.plus(HOUR), error: None };
    let item = Settlement { lease: first.lease.clone(), event_id: first.event_id, outcome };
    settle(&bench, vec![item], grant(0)).await;
    bench.passed(first.ready_at.plus(SHORT)).await;
    assert_eq!(overdue(&bench).await.len(), 1);
}

pub async fn running_or_settled_action_is_not_overdue(bench: ConformanceBench) {
    let held = begun(&bench, LeasePolicy { close: Some(SHORT), ..terms() }).await;
    bench.passed(held.ready_at.plus(SHORT)).await;
    assert!(overdue(&bench).await.is_empty(), "it is given up when its lease ends");
    settle(&bench, vec![succeed(&held, "1")], grant(0)).await;
    assert!(overdue(&bench).await.is_empty());
}

pub async fn cancelled_action_is_not_overdue(bench: ConformanceBench) {
    let key = execution("one");
    let soon = LeasePolicy { start: Some(SHORT), ..terms() };
    let (_, state, _) = bench.acting(&key, &[ready("a").on(soon)], grant(0)).await;
    let ready_at = bench.action(&key, "a").await.ready_at.unwrap();
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    bench.passed(ready_at.plus(SHORT)).await;
    assert!(overdue(&bench).await.is_empty());
}

pub async fn action_skipped_for_undo_is_not_overdue(bench: ConformanceBench) {
    let key = execution("one");
    let soon = LeasePolicy { start: Some(SHORT), ..terms() };
    let (_, _, done) = bench.acting(&key, &[ready("a"), ready("b").on(soon)], grant(1)).await;
    let ready_at = bench.action(&key, "b").await.ready_at.unwrap();
    settle(&bench, vec![compensate(&done.leased[0])], grant(0)).await;
    assert_eq!(bench.action(&key, "b").await.status, ActionStatus::Skipped);
    bench.passed(ready_at.plus(SHORT)).await;
    assert!(overdue(&bench).await.is_empty());
}

pub async fn incident_decision_restarts_schedule(bench: ConformanceBench) {
    let first = begun(&bench, LeasePolicy { close: Some(SHORT), start: Some(HOUR), ..terms() }).await;
    settle(&bench, vec![fail(&first, "no")], grant(0)).await;
    bench.passed(first.ready_at.plus(SHORT)).await;
    assert!(overdue(&bench).await.is_empty(), "it waits for a person");
    let incidents = &bench.stores.incidents;
    let filter = IncidentFilter::default();
    let view = incidents.list_incidents(&tenant("acme"), &filter, None, 1).await.unwrap().remove(0);
    let (by, now) = (DecisionRecord { actor: None, reason: None }, bench.now().await);
    let batch = [(view.id, IncidentDecision::Retry)];
    let resolved = incidents.resolve_incidents(&tenant("acme"), &batch, &by, now).await.unwrap();
    assert!(matches!(resolved[..], [ResolveVerdict::Done { .. }]), "{resolved:?}");
    let ready_at = bench.action(&execution("one"), "a").await.ready_at.unwrap();
    assert!(ready_at > first.ready_at.plus(SHORT));
    bench.passed(ready_at.plus(SHORT)).await;
    let found = overdue(&bench).await;
    assert_eq!(found.iter().map(|action| action.attempt).collect::<Vec<_>>(), [0]);
}

pub async fn overdue_leases_take_oldest_within_slots(bench: ConformanceBench) {
    let key = execution("one");
    let within = |limit| LeasePolicy { start: Some(limit), ..terms() };
    let actions = [ready("a").on(within(SHORT * 2)), ready("b").on(within(SHORT)), ready("c")];
    bench.acting(&key, &actions, grant(0)).await;
    let ready_at = bench.action(&key, "a").await.ready_at.unwrap();
    bench.passed(ready_at.plus(SHORT * 2)).await;
    let tasks = &bench.stores.tasks;
    let mut order = Vec::new();
    for slots in [0, 1, 5] {
        let found = tasks.lease_overdue(&worker("w1"), &grant(slots), bench.now().await).await.unwrap();
        order.push(found.into_iter().map(|action| action.lease.key.action.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(order, [vec![], vec!["b".to_owned()], vec!["a".to_owned()]]);
}

pub async fn next_due_covers_named_queues_only(bench: ConformanceBench) {
    let key = execution("one");
    let now = bench.now().await;
    let actions = [ready("a"), ready("b").on(terms()), waiting("c", &["a"]).on(terms())];
    let (_, _, done) = bench.acting(&key, &actions, grant(1)).await;
    settle(&bench, vec![retry(&done.leased[0], now.plus(HOUR * 2))], grant(0)).await;
    let b = lease(&bench).await.remove(0);
    assert_eq!(
        bench.stores.timers.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(),
        Some(now.plus(HOUR * 2))
    );
    settle(&bench, vec![retry(&b, now.plus(HOUR))], grant(0)).await;
    let both = [ActionQueue::engine_for_all(), charge()];
    assert_eq!(bench.stores.timers.next_due(&both).await.unwrap(), Some(now.plus(HOUR)));
    assert_eq!(bench.stores.timers.next_due(&both[..1]).await.unwrap(), Some(now.plus(HOUR * 2)));
}

pub async fn cancellation_during_undo_ends_it(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), standby("undo-a", "a")];
    let (id, state, done) = bench.acting(&key, &actions, grant(2)).await;
    let [a, b] = &done.leased[..] else { panic!("{:?}", done.leased) };
    settle(&bench, vec![succeed(a, "1")], grant(0)).await;
    assert_eq!(settle(&bench, vec![compensate(b)], grant(0)).await.unleased, 1);
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    for action in ["b", "undo-a"] {
        assert_eq!(bench.action(&key, action).await.status, ActionStatus::Cancelled, "{action}");
    }
}

pub async fn first_outcome_of_duplicate_lease_counts(bench: ConformanceBench) {
    for (round, others) in [vec![], vec![ready("b")]].into_iter().enumerate() {
        let key = execution(&format!("e{round}"));
        let actions: Vec<_> = [ready("a")].into_iter().chain(others).collect();
        let (_, _, done) = bench.acting(&key, &actions, grant(1)).await;
        let at = bench.now().await.plus(HOUR);
        let batch = vec![retry(&done.leased[0], at), succeed(&done.leased[0], "1")];
        let verdicts = settle(&bench, batch, grant(0)).await.verdicts;
        let recorded =
            millstream_store::action_store::SettleVerdict::Recorded { event: EventStatus::Processing };
        assert_eq!(verdicts, [recorded, millstream_store::action_store::SettleVerdict::Stale]);
        let view = bench.action(&key, "a").await;
        let shape = (view.status, view.next_attempt_at, view.result);
        assert_eq!(shape, (ActionStatus::Ready, Some(at), None));
    }
}

pub async fn expired_external_lease_is_swept(bench: ConformanceBench) {
    let queue = ActionQueue::of_task(&tenant("acme"), &name("resize"), &Default::default());
    let terms = LeasePolicy { queue: queue.clone(), attempt: Some(SHORT), ..LeasePolicy::engine_for_all() };
    bench.acting(&execution("one"), &[ready("a").on(terms)], grant(0)).await;
    let serving = LeaseGrant { slots: 1, ttl: LONG, queues: [queue].into() };
    let now = bench.now().await;
    let held = bench.stores.actions.lease(&worker("py"), &serving, now).await.unwrap().remove(0);
    let mut found = overdue(&bench).await;
    // On a busy machine its time may be over already, and then the lease of the sweep can be over as well.
    if found.is_empty() {
        bench.passed(held.lease_until).await;
        found = overdue(&bench).await;
    } else {
        assert!(bench.now().await >= held.lease_until, "before its time");
    }
    let [lost] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (lost.attempt, lost.lease.epoch.0),
        (1, held.lease.epoch.0 + 1),
        "the deadline sweep is no attempt"
    );
    let late = settle(&bench, vec![succeed(&held, "1")], grant(0)).await;
    assert_eq!(late.verdicts, [millstream_store::action_store::SettleVerdict::Stale]);
}

pub async fn expired_lease_past_close_is_swept(bench: ConformanceBench) {
    let grant = LeaseGrant { slots: 5, ttl: SHORT, queues: [charge()].into() };
    let terms = LeasePolicy { close: Some(SHORT), ..terms() };
    bench.acting(&execution("one"), &[ready("a").on(terms)], crate::fixture::grant(0)).await;
    let now = bench.now().await;
    let held = bench.stores.actions.lease(&worker("w2"), &grant, now).await.unwrap().remove(0);
    bench.passed(held.lease_until.max(held.ready_at.plus(SHORT))).await;
    assert_eq!(overdue(&bench).await.len(), 1);
}
