//! Independent actions, without relations in their transition: each is settled by itself.

use std::collections::BTreeSet;

use millstream_model::id::{Epoch, ExecutionKey};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase, ExecutionStatus};
use millstream_store::action_store::{AfterFailure, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::event_log::EventSubmission;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceAction, ConformanceCommit, ConformanceVisit, ready};
use crate::fixture::{HOUR, event, execution, grant, raw, worker};
use crate::settle::{fail, fail_and_tell, retry, settle, succeed};

const COMPLETED: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Completed };
const PROCESSING: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Processing };

fn crowd(count: usize) -> Vec<ConformanceAction> {
    (0..count).map(|n| ready(&format!("n{n:04}")).independent()).collect()
}

/// An event with independent actions, all of them leased.
async fn acting(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    count: usize,
) -> (millstream_model::id::EventId, millstream_workflow::log::ExecutionState, ConformanceCommit) {
    bench.acting(key, &crowd(count), grant(count)).await
}

fn outcome(done: &ConformanceCommit, at: usize, outcome: SettleOutcome) -> Settlement {
    let action = &done.leased[at];
    Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome }
}

fn succeed_and_tell(done: &ConformanceCommit, at: usize, event: EventSubmission) -> Settlement {
    outcome(done, at, SettleOutcome::Succeeded { result: raw("1"), emit: Some(Box::new(event)) })
}

pub async fn thousands_of_independent_actions_settle(bench: ConformanceBench) {
    const ALL: usize = 2_000;
    let key = execution("one");
    let (id, _, done) = acting(&bench, &key, ALL).await;
    assert_eq!((done.leased.len(), done.unleased), (ALL, 0));
    let mut told = BTreeSet::new();
    for batch in (0..ALL).collect::<Vec<_>>().chunks(250) {
        assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing, "not before the last");
        let settlements: Vec<_> = batch
            .iter()
            .map(|at| {
                let event = event(&bench, &key, "told");
                told.insert(event.event_id);
                // One in ten fails, with an error.
                match at % 10 {
                    0 => fail_and_tell(&done.leased[*at], event),
                    _ => succeed_and_tell(&done, *at, event),
                }
            })
            .collect();
        let settled = settle(&bench, settlements.clone(), grant(5)).await;
        assert!(settled.verdicts.iter().all(|verdict| *verdict == COMPLETED), "each by itself");
        assert_eq!((settled.leased.len(), settled.unleased), (0, 0));
        let again = settle(&bench, settlements, grant(5)).await;
        assert!(again.verdicts.iter().all(|verdict| *verdict == SettleVerdict::Stale));
    }
    let view = bench.event(&key, id).await;
    assert!(view.status == EventStatus::Completed && view.completed_at.is_some());
    let limits = millstream_store::execution_store::MailboxLimits { events: ALL + 1, bytes: usize::MAX };
    let mailbox = bench.load_within(&key, None, limits).await.mailbox;
    assert_eq!(mailbox.len(), ALL, "every outcome is there once");
    assert_eq!(mailbox.iter().map(|waiting| waiting.event_id).collect::<BTreeSet<_>>(), told);
    let actions = bench.actions(&key).await;
    assert_eq!(actions.iter().filter(|action| action.status == ActionStatus::Failed).count(), ALL / 10);
}

pub async fn handled_independent_failure_is_over(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = acting(&bench, &key, 2).await;
    let told = event(&bench, &key, "failed");
    let settled = settle(&bench, vec![fail_and_tell(&done.leased[0], told.clone())], grant(0)).await;
    assert_eq!(settled.verdicts, [COMPLETED]);
    let action = bench.action(&key, "n0000").await;
    assert_eq!((action.status, action.result), (ActionStatus::Failed, None));
    assert!(action.error.is_some() && action.settled_at.is_some() && action.lease_until.is_none());
    assert_eq!(bench.mailbox(&key).await, [told.event_id]);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    settle(&bench, vec![succeed(&done.leased[1], "1")], grant(0)).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    let again = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert!(again.is_empty());
}

pub async fn postponed_independent_action_leaves_others_unchanged(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = acting(&bench, &key, 5).await;
    let now = bench.now().await;
    let before = bench.action(&key, "n0004").await;
    let batch = vec![
        retry(&done.leased[0], now.minus(HOUR)),
        outcome(&done, 1, SettleOutcome::Postponed { at: now.plus(HOUR), error: None }),
        outcome(&done, 2, SettleOutcome::Awaiting { until: None }),
        succeed(&done.leased[3], "1"),
    ];
    let settled = settle(&bench, batch, grant(5)).await;
    assert_eq!(settled.verdicts, [PROCESSING, PROCESSING, PROCESSING, COMPLETED]);
    let shape: Vec<_> = bench.actions(&key).await.iter().map(|view| (view.status, view.attempts)).collect();
    let (ready, leased) = (ActionStatus::Ready, ActionStatus::Leased);
    let (awaiting, succeeded) = (ActionStatus::Awaiting, ActionStatus::Succeeded);
    assert_eq!(shape, [(ready, 1), (ready, 0), (awaiting, 1), (succeeded, 1), (leased, 1)]);
    let after = bench.action(&key, "n0004").await;
    assert_eq!((after.epoch, after.lease_until), (before.epoch, before.lease_until));
    let leased = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert_eq!(leased.iter().map(|one| (one.lease.epoch, one.attempt)).collect::<Vec<_>>(), [(Epoch(2), 2)]);
    let stale = settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    assert_eq!(stale.verdicts, [SettleVerdict::Stale], "the lease is lost");
    let rest = vec![succeed(&leased[0], "1"), succeed(&done.leased[2], "1"), succeed(&done.leased[4], "1")];
    assert_eq!(settle(&bench, rest, grant(0)).await.verdicts, [COMPLETED; 3]);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing, "one is postponed");
}

pub async fn unhandled_independent_failure_pauses_execution(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = acting(&bench, &key, 3).await;
    let batch = vec![fail(&done.leased[0], "no"), succeed(&done.leased[1], "1")];
    let settled = settle(&bench, batch, grant(0)).await;
    assert_eq!(settled.verdicts[0], SettleVerdict::Recorded { event: EventStatus::Failed });
    assert!(matches!(settled.verdicts[1], SettleVerdict::Recorded { .. }));
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Failed);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    assert_eq!(bench.action(&key, "n0002").await.status, ActionStatus::Leased, "it goes on");
}

pub async fn compensated_independent_action_is_reported_immediately(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = acting(&bench, &key, 2).await;
    let error = raw(r#"{"class":"status"}"#);
    let failed = SettleOutcome::Failed { error: error.clone(), then: AfterFailure::Compensate };
    let settled = settle(&bench, vec![outcome(&done, 0, failed)], grant(5)).await;
    assert_eq!(settled.verdicts, [PROCESSING]);
    let [closing] = &settled.leased[..] else { panic!("{:?}", settled.leased) };
    assert_eq!((closing.lease.key.action.as_str(), closing.closing.clone()), ("n0000", Some(error)));
    assert_eq!(bench.action(&key, "n0001").await.status, ActionStatus::Leased);
    let told = event(&bench, &key, "failed");
    assert_eq!(settle(&bench, vec![fail_and_tell(closing, told)], grant(0)).await.verdicts, [COMPLETED]);
}

pub async fn cancellation_cancels_independent_actions(bench: ConformanceBench) {
    let key = execution("one");
    let (id, state, done) = bench.acting(&key, &crowd(6), grant(2)).await;
    assert_eq!((done.leased.len(), done.unleased), (2, 4));
    let cancel = bench.post(&key, "millstream.cancel").await;
    let visit = ConformanceVisit::to(&key, &state, bench.now().await).end(
        cancel,
        "working",
        ExecutionPhase::Cancelled,
    );
    bench.commit_done(visit.cancel_open_actions()).await;
    let count = |status: ActionStatus, views: &[millstream_store::views::ActionRecord]| {
        views.iter().filter(|view| view.status == status).count()
    };
    let views = bench.actions(&key).await;
    assert_eq!((count(ActionStatus::Cancelled, &views), count(ActionStatus::Leased, &views)), (4, 2));
    let now = bench.now().await;
    let batch = vec![
        retry(&done.leased[0], now),
        outcome(&done, 1, SettleOutcome::Postponed { at: now, error: None }),
    ];
    assert_eq!(settle(&bench, batch, grant(5)).await.verdicts, [COMPLETED; 2]);
    assert_eq!(count(ActionStatus::Cancelled, &bench.actions(&key).await), 6, "nothing is tried again");
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
}

pub async fn concurrent_independent_settlements_are_recorded(bench: ConformanceBench) {
    const ALL: usize = 60;
    let key = execution("one");
    let (id, _, done) = acting(&bench, &key, ALL).await;
    let (now, mut tasks) = (bench.now().await, Vec::new());
    for (at, action) in done.leased.iter().enumerate() {
        let told = event(&bench, &key, "told");
        let settlement = match at % 3 {
            0 => succeed_and_tell(&done, at, told),
            1 => fail_and_tell(action, told),
            _ => retry(action, now.plus(HOUR)),
        };
        let bench = bench.clone();
        tasks.push(tokio::spawn(async move { settle(&bench, vec![settlement], grant(0)).await }));
    }
    for task in tasks {
        let settled = task.await.unwrap();
        assert!(matches!(settled.verdicts[..], [SettleVerdict::Recorded { .. }]), "{settled:?}");
    }
    assert_eq!(bench.mailbox(&key).await.len(), ALL / 3 * 2);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
}
