//! Settling: outcomes, dependents, the events' status.

use millstream_model::id::Epoch;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase, ExecutionStatus};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{
    AfterFailure, LeasePulse, LeasedAction, OutcomeDemand, SettleOutcome, SettleVerdict, SettledBatch,
    Settlement,
};
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::LeaseGrant;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready, standby, waiting};
use crate::fixture::{HOUR, event, execution, grant, incident, name, raw, worker};
use crate::undo::compensate;

const COMPLETED: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Completed };
const PROCESSING: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Processing };
const FAILED: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Failed };

fn outcome(action: &LeasedAction, outcome: SettleOutcome) -> Settlement {
    Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome }
}

pub(crate) fn succeed(action: &LeasedAction, result: &str) -> Settlement {
    outcome(action, SettleOutcome::Succeeded { result: raw(result), emit: None })
}

pub(crate) fn succeed_and_tell(action: &LeasedAction, event: EventSubmission) -> Settlement {
    outcome(action, SettleOutcome::Succeeded { result: raw("1"), emit: Some(Box::new(event)) })
}

pub(crate) fn retry(action: &LeasedAction, at: Timestamp) -> Settlement {
    outcome(action, SettleOutcome::Retry { error: raw(r#"{"class":"network"}"#), at })
}

pub(crate) fn fail(action: &LeasedAction, reason: &str) -> Settlement {
    let then = AfterFailure::Incident(incident(reason));
    outcome(action, SettleOutcome::Failed { error: raw(r#"{"class":"status"}"#), then })
}

pub(crate) fn fail_and_tell(action: &LeasedAction, event: EventSubmission) -> Settlement {
    let then = AfterFailure::Emit(Box::new(event));
    outcome(action, SettleOutcome::Failed { error: raw(r#"{"class":"status"}"#), then })
}

/// Settle as the worker `w1`.
pub(crate) async fn settle(
    bench: &ConformanceBench,
    batch: Vec<Settlement>,
    grant: LeaseGrant,
) -> SettledBatch {
    let now = bench.now().await;
    let settled = bench.stores.actions.settle_actions(&worker("w1"), &batch, &grant, now).await.unwrap();
    assert_eq!(settled.verdicts.len(), batch.len(), "one verdict per item");
    settled
}

pub async fn event_completes_when_all_actions_settle(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    let first = settle(&bench, vec![succeed(&done.leased[0], r#"{"n":  1.50}"#)], grant(0)).await;
    assert_eq!(first.verdicts, [PROCESSING]);
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.completed_at), (EventStatus::Processing, None));
    let second = settle(&bench, vec![succeed(&done.leased[1], "2")], grant(0)).await;
    assert_eq!(second.verdicts, [COMPLETED]);
    let record = bench.event(&key, id).await;
    assert_eq!(record.status, EventStatus::Completed);
    assert!(record.completed_at.is_some());
    let action = bench.action(&key, "a").await;
    assert_eq!((action.status, action.attempts), (ActionStatus::Succeeded, 1));
    assert_eq!(action.result, Some(raw(r#"{"n":  1.50}"#)));
    assert!(action.settled_at.is_some() && action.lease_until.is_none() && action.next_attempt_at.is_none());
}

pub async fn settle_verdict_has_final_batch_status(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    let batch = done.leased.iter().map(|action| succeed(action, "1")).collect();
    assert_eq!(settle(&bench, batch, grant(0)).await.verdicts, [COMPLETED, COMPLETED]);
}

pub async fn repeated_settlement_is_stale(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let told = event(&bench, &key, "charged");
    let batch = vec![succeed_and_tell(&done.leased[0], told.clone())];
    assert_eq!(settle(&bench, batch.clone(), grant(0)).await.verdicts, [COMPLETED]);
    assert_eq!(settle(&bench, batch, grant(0)).await.verdicts, [SettleVerdict::Stale]);
    let other = vec![fail(&done.leased[0], "no")];
    assert_eq!(settle(&bench, other, grant(0)).await.verdicts, [SettleVerdict::Stale]);
    assert_eq!(bench.mailbox(&key).await, [told.event_id]);
    assert_eq!(bench.action(&key, "a").await.status, ActionStatus::Succeeded);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
}

pub async fn duplicate_lease_settles_once(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let told = event(&bench, &key, "charged");
    let twice = event(&bench, &key, "charged");
    let batch =
        vec![succeed_and_tell(&done.leased[0], told.clone()), succeed_and_tell(&done.leased[0], twice)];
    assert_eq!(settle(&bench, batch, grant(0)).await.verdicts, [COMPLETED, SettleVerdict::Stale]);
    assert_eq!(bench.mailbox(&key).await, [told.event_id]);
}

pub async fn success_frees_dependents_with_result(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), waiting("c", &["a", "b"]), waiting("d", &["c"])];
    let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let first = settle(&bench, vec![succeed(&done.leased[0], "1.0")], grant(5)).await;
    assert_eq!((first.leased.len(), first.unleased), (0, 0), "one of two is not enough");
    let second = settle(&bench, vec![succeed(&done.leased[1], r#"{"b": 2}"#)], grant(5)).await;
    let [c] = &second.leased[..] else { panic!("{:?}", second.leased) };
    assert_eq!((c.lease.key.action.clone(), c.lease.epoch, c.attempt), (name("c"), Epoch(1), 1));
    assert_eq!(c.results, [(name("a"), raw("1.0")), (name("b"), raw(r#"{"b": 2}"#))].into());
    assert_eq!((c.input.clone(), c.scope.clone()), (None, Some(raw(r#"{"context":{"n":1.50}}"#))));
    assert_eq!(c.event_id, id);
    assert_eq!(bench.action(&key, "c").await.worker_id, Some(worker("w1")));
    assert_eq!(bench.action(&key, "d").await.status, ActionStatus::Waiting);
    let third = settle(&bench, vec![succeed(c, "3")], grant(0)).await;
    assert_eq!((third.leased.len(), third.unleased), (0, 1));
    let d = bench.stores.actions.lease(&worker("w2"), &grant(1), bench.now().await).await.unwrap().remove(0);
    assert_eq!(d.results, [(name("c"), raw("3"))].into());
    assert_eq!(settle(&bench, vec![succeed(&d, "4")], grant(0)).await.verdicts, [COMPLETED]);
}

pub async fn dependents_are_leased_within_slots(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("root"), waiting("x", &["root"]), waiting("y", &["root"]), waiting("z", &["root"])];
    let (_, _, done) = bench.acting(&key, &actions, grant(1)).await;
    let settled = settle(&bench, vec![succeed(&done.leased[0], "1")], grant(2)).await;
    assert_eq!((settled.leased.len(), settled.unleased), (2, 1));
    let rest = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert_eq!(rest.len(), 1);
}

pub async fn retry_is_due_later_and_keeps_error(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let at = bench.now().await.plus(HOUR);
    assert_eq!(settle(&bench, vec![retry(&done.leased[0], at)], grant(5)).await.verdicts, [PROCESSING]);
    let view = bench.action(&key, "a").await;
    assert_eq!((view.status, view.attempts), (ActionStatus::Ready, 1));
    assert_eq!((view.next_attempt_at, view.lease_until), (Some(at), None));
    assert_eq!(view.error, Some(raw(r#"{"class":"network"}"#)));
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
}

pub async fn cancelled_execution_cancels_retried_action(bench: ConformanceBench) {
    let key = execution("one");
    let (id, state, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "working", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    let first = settle(&bench, vec![retry(&done.leased[0], now)], grant(5)).await;
    assert_eq!((first.verdicts, first.unleased), (vec![PROCESSING], 0));
    let a = bench.action(&key, "a").await;
    assert_eq!((a.status, a.next_attempt_at), (ActionStatus::Cancelled, None));
    assert!(a.error.is_some() && a.settled_at.is_some());
    let second = settle(&bench, vec![retry(&done.leased[1], now)], grant(5)).await;
    assert_eq!(second.verdicts, [COMPLETED], "no further effect follows");
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    let due = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert!(due.is_empty());
}

/// A person's `fail` ends declared actions as a cancellation does; an end in a failed state does not.
pub async fn person_failed_execution_cancels_retried_action(bench: ConformanceBench) {
    for (id, ends_with, becomes) in [
        ("by-request", "millstream.fail", ActionStatus::Cancelled),
        ("by-itself", "refuse", ActionStatus::Ready),
    ] {
        let key = execution(id);
        let (_, state, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
        let last = bench.post(&key, ends_with).await;
        let now = bench.now().await;
        let mut visit = ConformanceVisit::to(&key, &state, now)
            .end(last, "working", ExecutionPhase::Failed)
            .named(ends_with);
        if ends_with == "millstream.fail" {
            visit = visit.cancel_open_actions();
        }
        bench.commit_done(visit).await;
        let beats = [done.leased[0].lease.clone().into()];
        let pulses = bench.stores.actions.renew_leases(&beats, &worker("w1"), &grant(0), now).await.unwrap();
        let unwanted = matches!(pulses[..], [LeasePulse::Held { wanted: OutcomeDemand::Cancelled, .. }]);
        assert_eq!(unwanted, becomes == ActionStatus::Cancelled, "{pulses:?}");
        settle(&bench, vec![retry(&done.leased[0], now)], grant(0)).await;
        assert_eq!(bench.action(&key, "a").await.status, becomes, "{id}");
    }
}

/// No child is awaited any more, and no undo begins.
pub async fn cancelled_execution_settles_without_undo(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), ready("c"), ready("d"), standby("undo-a", "a")];
    let (id, state, done) = bench.acting(&key, &actions, grant(4)).await;
    let [a, b, c, d] = &done.leased[..] else { panic!("{:?}", done.leased) };
    let awaiting = |action: &LeasedAction| Settlement {
        lease: action.lease.clone(),
        event_id: action.event_id,
        outcome: SettleOutcome::Awaiting { until: None },
    };
    settle(&bench, vec![succeed(a, "1"), awaiting(b)], grant(0)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "working", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    assert_eq!(bench.action(&key, "b").await.status, ActionStatus::Cancelled, "no event waits for it");
    assert_eq!(settle(&bench, vec![succeed(b, "2")], grant(0)).await.verdicts, [SettleVerdict::Stale]);
    let settled = settle(&bench, vec![compensate(c), awaiting(d)], grant(5)).await;
    assert!(settled.leased.is_empty() && settled.unleased == 0, "{settled:?}");
    assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Failed);
    assert_eq!(bench.action(&key, "d").await.status, ActionStatus::Cancelled);
    assert_eq!(bench.action(&key, "undo-a").await.status, ActionStatus::Standby);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    let due = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert!(due.is_empty());
}

/// Its parent must receive the cancellation.
pub async fn reserved_action_retries_after_cancellation(bench: ConformanceBench) {
    let key = execution("one");
    let owed = "millstream.return";
    let (_, state, done) = bench.acting(&key, &[ready(owed)], grant(1)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "working", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    let again = settle(&bench, vec![retry(&done.leased[0], now)], grant(0)).await;
    assert_eq!(again.verdicts, [PROCESSING]);
    assert_eq!(bench.action(&key, owed).await.status, ActionStatus::Ready);
    let due = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert_eq!(due.len(), 1);
}

pub async fn retry_continues_after_plain_end(bench: ConformanceBench) {
    let key = execution("one");
    let (_, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let last = bench.post(&key, "close").await;
    let now = bench.now().await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, now).end(last, "closed", ExecutionPhase::Completed))
        .await;
    settle(&bench, vec![retry(&done.leased[0], now)], grant(0)).await;
    assert_eq!(bench.action(&key, "a").await.status, ActionStatus::Ready);
}

pub async fn handled_failure_emits_and_completes(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let told = event(&bench, &key, "charge_failed");
    let settled = settle(&bench, vec![fail_and_tell(&done.leased[0], told.clone())], grant(0)).await;
    assert_eq!(settled.verdicts, [COMPLETED]);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    assert_eq!(bench.mailbox(&key).await, [told.event_id]);
    let view = bench.action(&key, "a").await;
    assert_eq!((view.status, view.error), (ActionStatus::Failed, Some(raw(r#"{"class":"status"}"#))));
}

pub async fn unhandled_failure_fails_event_and_pauses(bench: ConformanceBench) {
    let key = execution("one");
    let (id, state, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    let next = bench.post(&key, "ship").await;
    assert_eq!(settle(&bench, vec![fail(&done.leased[0], "no money")], grant(0)).await.verdicts, [FAILED]);
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.error.as_deref()), (EventStatus::Failed, Some("no money")));
    assert!(record.completed_at.is_some());
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason.as_deref()), (ExecutionStatus::Paused, Some("no money")));
    let verdict =
        bench.commit_one(ConformanceVisit::to(&key, &state, bench.now().await).apply(next, "x")).await;
    assert!(matches!(verdict, millstream_store::execution_store::CommitVerdict::Conflict));
    let other = settle(&bench, vec![succeed(&done.leased[1], "1")], grant(0)).await;
    assert_eq!(other.verdicts, [FAILED], "later settlements do not repair it");
}

pub async fn failure_skips_transitive_dependents(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [
        ready("a"),
        ready("b"),
        waiting("c", &["a"]),
        waiting("d", &["c", "b"]),
        waiting("e", &["d"]),
        waiting("f", &["b"]),
    ];
    let (_, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let told = event(&bench, &key, "charge_failed");
    let settled = settle(&bench, vec![fail_and_tell(&done.leased[0], told)], grant(5)).await;
    assert_eq!((settled.verdicts, settled.leased.len()), (vec![PROCESSING], 0));
    let statuses: Vec<_> = bench.actions(&key).await.into_iter().map(|view| view.status).collect();
    let (skipped, waiting) = (ActionStatus::Skipped, ActionStatus::Waiting);
    assert_eq!(statuses, [ActionStatus::Failed, ActionStatus::Leased, skipped, skipped, skipped, waiting]);
    assert!(bench.action(&key, "e").await.settled_at.is_some());
    let freed = settle(&bench, vec![succeed(&done.leased[1], "1")], grant(5)).await.leased;
    assert_eq!(freed.len(), 1);
    assert_eq!(settle(&bench, vec![succeed(&freed[0], "1")], grant(5)).await.verdicts, [COMPLETED]);
}

pub async fn batched_failure_and_success_agree_on_dependents(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), waiting("c", &["a", "b"]), waiting("d", &["c"])];
    let (_, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let told = event(&bench, &key, "charge_failed");
    let batch = vec![succeed(&done.leased[0], "1"), fail_and_tell(&done.leased[1], told)];
    let settled = settle(&bench, batch, grant(5)).await;
    assert_eq!((settled.verdicts, settled.leased.len()), (vec![COMPLETED, COMPLETED], 0));
    assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Skipped);
    assert_eq!(bench.action(&key, "d").await.status, ActionStatus::Skipped);
}

pub async fn success_emits_event_in_same_transaction(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    let first = EventSubmission { actor: Some("action:a".to_owned()), ..event(&bench, &key, "charged") };
    let second = event(&bench, &key, "charged");
    let batch = vec![
        succeed_and_tell(&done.leased[0], first.clone()),
        succeed_and_tell(&done.leased[1], second.clone()),
    ];
    settle(&bench, batch, grant(0)).await;
    assert_eq!(bench.mailbox(&key).await, [first.event_id, second.event_id]);
    let record = bench.event(&key, first.event_id).await;
    assert_eq!((record.status, record.actor.as_deref()), (EventStatus::Pending, Some("action:a")));
}

pub async fn failure_after_end_pauses_nothing(bench: ConformanceBench) {
    let key = execution("one");
    let (id, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let last = bench.post(&key, "close").await;
    let visit =
        ConformanceVisit::to(&key, &state, bench.now().await).end(last, "closed", ExecutionPhase::Completed);
    bench.commit_done(visit).await;
    assert_eq!(settle(&bench, vec![fail(&done.leased[0], "no")], grant(0)).await.verdicts, [FAILED]);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Failed);
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason), (ExecutionStatus::Completed, None));
}

pub async fn settle_batch_may_span_executions(bench: ConformanceBench) {
    let mut batch = Vec::new();
    for id in ["c", "a", "b"] {
        let (_, _, done) = bench.acting(&execution(id), &[ready("a")], grant(1)).await;
        batch.push(match id {
            "a" => fail(&done.leased[0], "no"),
            _ => succeed(&done.leased[0], "1"),
        });
    }
    assert_eq!(settle(&bench, batch, grant(0)).await.verdicts, [COMPLETED, FAILED, COMPLETED]);
    assert_eq!(bench.execution(&execution("a")).await.status, ExecutionStatus::Paused);
    assert_eq!(bench.execution(&execution("b")).await.status, ExecutionStatus::Active);
    assert!(settle(&bench, Vec::new(), grant(3)).await.verdicts.is_empty());
}
