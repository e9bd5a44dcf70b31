//! Two concurrent writes, each with a valid lease or version of its own: in either order, the result equals
//! one after the other.

use std::collections::BTreeSet;
use std::future::Future;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, ExecutionKey};
use millstream_model::status::{
    ActionStatus, EventStatus, ExecutionPhase, ExecutionStatus, IncidentResolution,
};
use millstream_store::action_store::{LeaseHeartbeat, LeasePulse, LeasedAction, SettleVerdict};
use millstream_store::event_log::{Appended, IdempotencyKey, SignalSubmission};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::{IncidentDecision, IncidentFilter, IncidentView, ResolveVerdict};
use millstream_store::intervention::{DecisionRecord, RetryVerdict};
use millstream_workflow::lease_policy::LeasePolicy;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready, standby, waiting};
use crate::fixture::{HOUR, LONG, SHORT, execution, grant, name, raw, tenant, worker};
use crate::relations::{correlated, send, signal};
use crate::settle::{fail, retry, settle, succeed};
use crate::undo::compensate;

const ROUNDS: usize = 40;

/// Both, as concurrently as two tasks can be.
pub(crate) async fn at_once<A, B>(
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let (first, second) = (tokio::spawn(first), tokio::spawn(second));
    (first.await.unwrap(), second.await.unwrap())
}

fn by(actor: &str) -> DecisionRecord {
    DecisionRecord { actor: Some(actor.to_owned()), reason: None }
}

async fn incidents_of(bench: &ConformanceBench, key: &ExecutionKey) -> Vec<IncidentView> {
    let filter = IncidentFilter { execution: Some(key.execution.clone()), ..IncidentFilter::default() };
    bench.stores.incidents.list_incidents(&key.tenant, &filter, None, 100).await.unwrap()
}

async fn resolve(bench: ConformanceBench, view: IncidentView, how: IncidentDecision) -> ResolveVerdict {
    let (now, batch) = (bench.now().await, [(view.id, how)]);
    bench
        .stores
        .incidents
        .resolve_incidents(&tenant("acme"), &batch, &by("ann"), now)
        .await
        .unwrap()
        .remove(0)
}

pub async fn incident_decision_and_event_retry_apply_once(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let (id, _, done) = bench.acting(&key, &[ready("a"), waiting("b", &["a"])], grant(1)).await;
        settle(&bench, vec![fail(&done.leased[0], "no")], grant(0)).await;
        let view = incidents_of(&bench, &key).await.remove(0);
        let resolving = resolve(bench.clone(), view, IncidentDecision::RetryWith { input: raw("2") });
        let retrying = {
            let bench = bench.clone();
            async move {
                let now = bench.now().await;
                bench.stores.interventions.retry_event(&tenant("acme"), id, &by("bob"), now).await.unwrap()
            }
        };
        let revision = match at_once(resolving, retrying).await {
            (
                ResolveVerdict::Done { .. },
                RetryVerdict::NotApplicable { status: EventStatus::Processing },
            ) => 1,
            (
                ResolveVerdict::Already { resolution: IncidentResolution::Retry },
                RetryVerdict::Accepted { .. },
            ) => 0,
            other => panic!("round {round}: {other:?}"),
        };
        let a = bench.action(&key, "a").await;
        assert_eq!((a.status, a.revision, a.attempts), (ActionStatus::Ready, revision, 0), "round {round}");
        assert_eq!(bench.action(&key, "b").await.status, ActionStatus::Waiting, "round {round}");
        assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing, "round {round}");
        assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active, "round {round}");
        assert_eq!(bench.stores.interventions.list_decisions(&key).await.unwrap().len(), 1, "round {round}");
    }
}

pub async fn concurrent_decisions_resolve_both_failures(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let actions = [ready("a"), ready("b"), waiting("c", &["a", "b"])];
        let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
        settle(&bench, done.leased.iter().map(|action| fail(action, "no")).collect(), grant(0)).await;
        let [b, a] = &incidents_of(&bench, &key).await[..] else { panic!("two failures, two incidents") };
        let skip = IncidentDecision::Skip { result: raw("1"), emit: None };
        let both =
            at_once(resolve(bench.clone(), a.clone(), skip.clone()), resolve(bench.clone(), b.clone(), skip));
        both.await;
        assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Ready, "round {round}");
        assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing, "round {round}");
        assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active, "round {round}");
    }
}

pub async fn two_failures_open_two_incidents_pause_once(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let (id, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
        let failing = |n: usize| {
            let (bench, item) = (bench.clone(), fail(&done.leased[n], &format!("no {n}")));
            async move { settle(&bench, vec![item], grant(0)).await.verdicts }
        };
        let (first, second) = at_once(failing(0), failing(1)).await;
        let failed = [SettleVerdict::Recorded { event: EventStatus::Failed }];
        assert_eq!((&first[..], &second[..]), (&failed[..], &failed[..]), "round {round}");
        let reasons: BTreeSet<String> =
            incidents_of(&bench, &key).await.into_iter().map(|view| view.reason).collect();
        assert_eq!(reasons, ["no 0".to_owned(), "no 1".to_owned()].into(), "round {round}");
        let (view, event) = (bench.execution(&key).await, bench.event(&key, id).await);
        assert_eq!(view.status, ExecutionStatus::Paused, "round {round}");
        assert_eq!(view.paused_reason, event.error, "the first pause sets the reason: round {round}");
    }
}

/// A cancellation, ready to be committed.
async fn cancelling(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    state: &millstream_workflow::log::ExecutionState,
) -> impl Future<Output = ()> + Send + use<> {
    let cancel = bench.post(key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(key, state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    let bench = bench.clone();
    async move {
        bench.commit_done(visit).await;
    }
}

pub async fn failure_and_execution_end_leave_no_incident(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let (_, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
        let ending = cancelling(&bench, &key, &state).await;
        let (settling, item) = (bench.clone(), fail(&done.leased[0], "no"));
        at_once(ending, async move { settle(&settling, vec![item], grant(0)).await }).await;
        // One if it was first, which its end has resolved; none if it came after the end.
        let incidents = incidents_of(&bench, &key).await;
        let resolution =
            incidents.first().map(|one| one.resolved.as_ref().map(|resolved| resolved.resolution));
        assert!(
            matches!(resolution, None | Some(Some(IncidentResolution::Ended))),
            "round {round}: {incidents:?}"
        );
        assert!(incidents.len() <= 1, "round {round}");
        let view = bench.execution(&key).await;
        assert_eq!((view.status, view.paused_reason), (ExecutionStatus::Cancelled, None), "round {round}");
    }
}

pub async fn retry_and_cancellation_leave_no_open_action(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let (id, state, done) = bench.acting(&key, &[ready("a"), waiting("b", &["a"])], grant(1)).await;
        let ending = cancelling(&bench, &key, &state).await;
        let (settling, item) = (bench.clone(), retry(&done.leased[0], bench.now().await));
        at_once(ending, async move { settle(&settling, vec![item], grant(0)).await }).await;
        for action in ["a", "b"] {
            let status = bench.action(&key, action).await.status;
            assert_eq!(status, ActionStatus::Cancelled, "round {round}: {action}");
        }
        assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed, "round {round}");
    }
}

pub async fn concurrent_compensations_undo_once(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let actions = [ready("a"), ready("b"), ready("c"), standby("undo-c", "c")];
        let (_, _, done) = bench.acting(&key, &actions, grant(3)).await;
        settle(&bench, vec![succeed(&done.leased[2], "1")], grant(0)).await;
        let failing = |n: usize| {
            let (bench, item) = (bench.clone(), compensate(&done.leased[n]));
            async move { settle(&bench, vec![item], grant(5)).await.leased }
        };
        let (mut freed, second) = at_once(failing(0), failing(1)).await;
        freed.extend(second);
        let [undo] = &freed[..] else { panic!("round {round}: {freed:?}") };
        assert_eq!(undo.lease.key.action, name("undo-c"), "round {round}");
        let told = settle(&bench, vec![succeed(undo, "1")], grant(5)).await.leased;
        let closing: Vec<_> = told.iter().map(|action| action.lease.key.action.as_str()).collect();
        assert_eq!(closing, ["a", "b"], "round {round}");
    }
}

pub async fn lease_and_overdue_sweep_share_actions(bench: ConformanceBench) {
    let queue = ActionQueue::call_for_all(&name("charge"));
    let terms = LeasePolicy { queue: queue.clone(), start: Some(SHORT), ..LeasePolicy::engine_for_all() };
    let actions: Vec<_> = (0..8).map(|n| ready(&format!("a{n}")).on(terms.clone())).collect();
    for round in 0..ROUNDS / 4 {
        let key = execution(&format!("e{round}"));
        bench.acting(&key, &actions, grant(0)).await;
        bench.passed(bench.action(&key, "a0").await.ready_at.unwrap().plus(SHORT)).await;
        let grant = LeaseGrant { slots: 3, ttl: LONG, queues: [queue.clone()].into() };
        let take = |n: usize| {
            let (bench, grant) = (bench.clone(), grant.clone());
            async move {
                let (now, by) = (bench.now().await, worker(&format!("w{n}")));
                match n % 2 {
                    0 => bench.stores.actions.lease(&by, &grant, now).await.unwrap(),
                    _ => bench.stores.tasks.lease_overdue(&by, &grant, now).await.unwrap(),
                }
            }
        };
        let tasks: Vec<_> = (0..6).map(|n| tokio::spawn(take(n))).collect();
        let mut leased: Vec<LeasedAction> = Vec::new();
        for task in tasks {
            leased.extend(task.await.unwrap());
        }
        // Callers may skip rows that another one is leasing.
        for n in 0..6 {
            leased.extend(take(n).await);
        }
        let keys: BTreeSet<ActionKey> = leased.iter().map(|action| action.lease.key.clone()).collect();
        assert_eq!((leased.len(), keys.len()), (8, 8), "round {round}");
        assert!(leased.iter().all(|action| action.lease.epoch.0 == 1), "round {round}");
    }
}

pub async fn heartbeat_does_not_revive_settled_action(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let key = execution(&format!("e{round}"));
        let (_, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
        let beat = LeaseHeartbeat { lease: done.leased[0].lease.clone(), progress: Some(raw("1")) };
        let beating = {
            let (bench, beats) = (bench.clone(), [beat.clone()]);
            async move {
                let now = bench.now().await;
                bench.stores.actions.renew_leases(&beats, &worker("w1"), &grant(0), now).await.unwrap()
            }
        };
        let at = bench.now().await.plus(HOUR);
        let item = match round % 2 {
            0 => succeed(&done.leased[0], "1"),
            _ => retry(&done.leased[0], at),
        };
        let settling = bench.clone();
        at_once(beating, async move { settle(&settling, vec![item], grant(0)).await }).await;
        let a = bench.action(&key, "a").await;
        let expected = match round % 2 {
            0 => (ActionStatus::Succeeded, None, None),
            _ => (ActionStatus::Ready, Some(at), None),
        };
        assert_eq!((a.status, a.next_attempt_at, a.lease_until), expected, "round {round}");
        let now = bench.now().await;
        let late = bench.stores.actions.renew_leases(&[beat], &worker("w1"), &grant(0), now).await.unwrap();
        assert_eq!(late, [LeasePulse::Lost], "round {round}");
    }
}

pub async fn concurrent_signal_and_correlating_commit_meet(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let (key, correlation) = (execution(&format!("e{round}")), format!("o-{round}"));
        let state = bench.start(&key).await;
        let id = bench.post(&key, "name").await;
        let now = bench.now().await;
        let visit = ConformanceVisit::to(&key, &state, now).apply(id, "named").correlating(&correlation);
        let sent = signal(&bench, &correlation, now);
        let (committing, sending, signal) = (bench.clone(), bench.clone(), sent.clone());
        at_once(
            async move { committing.commit_done(visit).await },
            async move { send(&sending, &signal).await },
        )
        .await;
        assert_eq!(bench.mailbox(&key).await, [sent.event_id], "round {round}");
        let kept = bench.stores.relations.find_signals(&[(tenant("acme"), sent.event_id)]).await.unwrap();
        assert_eq!(kept, [None], "round {round}");
    }
}

pub async fn signal_to_ending_execution_is_never_lost(bench: ConformanceBench) {
    for round in 0..ROUNDS {
        let (key, correlation) = (execution(&format!("e{round}")), format!("o-{round}"));
        let now = bench.now().await;
        let state = bench.start_as(correlated(&bench, &key, &correlation, now)).await;
        let id = bench.post(&key, "end").await;
        let visit = ConformanceVisit::to(&key, &state, now).end(id, "done", ExecutionPhase::Completed);
        let sent = signal(&bench, &correlation, now);
        let (committing, sending, signal) = (bench.clone(), bench.clone(), sent.clone());
        let ((), appended) = at_once(
            async move {
                committing.commit_done(visit).await;
            },
            async move { send(&sending, &signal).await },
        )
        .await;
        let kept = bench.stores.relations.find_signals(&[(tenant("acme"), sent.event_id)]).await.unwrap();
        match appended {
            Appended::Delivered { .. } => assert_eq!(bench.mailbox(&key).await, [sent.event_id]),
            Appended::Buffered => assert!(kept[0].is_some() && bench.mailbox(&key).await.is_empty()),
            other @ (Appended::Accepted { .. }
            | Appended::Repeat { .. }
            | Appended::Ambiguous { .. }
            | Appended::Mismatch
            | Appended::NoExecution) => panic!("round {round}: {other:?}"),
        }
    }
}

pub async fn concurrent_copies_of_signal_are_one(bench: ConformanceBench) {
    for round in 0..ROUNDS / 4 {
        let correlation = format!("o-{round}");
        let now = bench.now().await;
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let idempotency = Some(IdempotencyKey { key: format!("k-{round}"), request_hash: [1; 32] });
                let sent = SignalSubmission { idempotency, ..signal(&bench, &correlation, now) };
                let bench = bench.clone();
                tokio::spawn(async move { (sent.event_id, send(&bench, &sent).await) })
            })
            .collect();
        let (mut first, mut repeats) = (Vec::new(), BTreeSet::new());
        for task in tasks {
            match task.await.unwrap() {
                (id, Appended::Buffered) => first.push(id),
                (_, Appended::Repeat { event_id, status: EventStatus::Pending }) => {
                    repeats.insert(event_id);
                }
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(repeats.into_iter().collect::<Vec<_>>(), first, "round {round}");
        let key = execution(&format!("e{round}"));
        bench.start_as(correlated(&bench, &key, &correlation, now)).await;
        assert_eq!(bench.mailbox(&key).await, first, "round {round}");
    }
}
