//! Interventions: bury, pause, retry, and their records.

use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase, ExecutionStatus};
use millstream_store::intervention::{DecisionRecord, RetryVerdict};

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, broken, broken_and_told, ready, waiting};
use crate::fixture::{burial, event, execution, grant, pausing, tenant, worker};
use crate::settle::{fail, fail_and_tell, settle, succeed};

async fn bury(bench: &ConformanceBench, key: &ExecutionKey, event_id: EventId) {
    let buried = burial(key.clone(), event_id, "crashed 5 times");
    bench.stores.interventions.bury_events(&[buried], bench.now().await).await.unwrap();
}

async fn retry(bench: &ConformanceBench, owner: &str, event: EventId) -> RetryVerdict {
    let by = DecisionRecord { actor: Some("ops".to_owned()), reason: Some("fixed".to_owned()) };
    bench.stores.interventions.retry_event(&tenant(owner), event, &by, bench.now().await).await.unwrap()
}

/// Recorded decisions: kind, actor and reason.
async fn decisions(bench: &ConformanceBench, key: &ExecutionKey) -> Vec<String> {
    let recorded = bench.stores.interventions.list_decisions(key).await.unwrap();
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
    recorded
        .iter()
        .map(|decision| format!("{} by {}: {}", decision.kind, word(&decision.actor), word(&decision.reason)))
        .collect()
}

pub async fn buried_event_is_dead_and_pauses(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let (id, next) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    bench.stores.executions.count_attempts(&[(key.clone(), id)]).await.unwrap();
    bury(&bench, &key, id).await;
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.error.as_deref()), (EventStatus::Dead, Some("crashed 5 times")));
    assert_eq!(record.attempts, 1);
    assert!(record.completed_at.is_some());
    let view = bench.execution(&key).await;
    assert_eq!(view.status, ExecutionStatus::Paused);
    assert_eq!(view.paused_reason.as_deref(), Some("crashed 5 times"));
    assert_eq!(bench.event(&key, next).await.status, EventStatus::Pending);
    assert_eq!(decisions(&bench, &key).await, ["bury by -: crashed 5 times"]);
    assert_eq!(bench.stores.interventions.list_decisions(&key).await.unwrap()[0].event_id, Some(id));
}

pub async fn decided_event_is_not_buried(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let id = bench.post(&key, "pay").await;
    bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).apply(id, "paid")).await;
    bury(&bench, &key, id).await;
    bury(&bench, &key, bench.event_id()).await;
    bury(&bench, &crate::fixture::execution_of("rival", "one"), id).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    assert!(decisions(&bench, &key).await.is_empty());
}

pub async fn deferred_event_can_be_buried(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let id = bench.post(&key, "ship").await;
    bench.commit_done(ConformanceVisit::to(&key, &state, bench.now().await).defer(id)).await;
    bury(&bench, &key, id).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Dead);
    assert!(bench.mailbox(&key).await.is_empty());
}

pub async fn burial_after_end_pauses_nothing(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let last = bench.post(&key, "close").await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, bench.now().await).end(
            last,
            "closed",
            ExecutionPhase::Failed,
        ))
        .await;
    let (id, next) = (bench.post(&key, "pay").await, bench.post(&key, "pay").await);
    bury(&bench, &key, id).await;
    assert_eq!(bench.execution(&key).await.paused_reason, None);
    assert_eq!(bench.mailbox(&key).await, [next]);
}

pub async fn repeated_pause_keeps_first_reason(bench: ConformanceBench) {
    let (key, other) = (execution("one"), execution("other"));
    bench.start(&key).await;
    bench.start(&other).await;
    let batch = [pausing(&key, "bad snapshot"), pausing(&execution("none"), "x"), pausing(&other, "y")];
    let store = &bench.stores.interventions;
    store.pause_executions(&batch, bench.now().await).await.unwrap();
    store.pause_executions(&[pausing(&key, "again")], bench.now().await).await.unwrap();
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason.as_deref()), (ExecutionStatus::Paused, Some("bad snapshot")));
    assert_eq!(bench.execution(&other).await.status, ExecutionStatus::Paused);
    assert_eq!(decisions(&bench, &key).await, ["pause by -: bad snapshot"]);
    assert!(decisions(&bench, &execution("none")).await.is_empty());
}

pub async fn failures_and_burials_keep_pause_reason(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    settle(&bench, vec![fail(&done.leased[0], "first")], grant(0)).await;
    settle(&bench, vec![fail(&done.leased[1], "second")], grant(0)).await;
    let id = bench.post(&key, "pay").await;
    bury(&bench, &key, id).await;
    assert_eq!(bench.execution(&key).await.paused_reason.as_deref(), Some("first"));
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Dead);
}

pub async fn retried_dead_event_keeps_its_place(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let (id, next) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    bench.stores.executions.count_attempts(&[(key.clone(), id)]).await.unwrap();
    bury(&bench, &key, id).await;
    assert_eq!(retry(&bench, "acme", id).await, RetryVerdict::Accepted { execution: key.clone() });
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.attempts, record.error), (EventStatus::Pending, 0, None));
    assert_eq!(record.completed_at, None);
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason), (ExecutionStatus::Active, None));
    assert_eq!(bench.mailbox(&key).await, [id, next]);
    let expected = ["bury by -: crashed 5 times", "retry by ops: fixed"];
    assert_eq!(decisions(&bench, &key).await, expected);
}

pub async fn retried_failed_event_reopens_its_actions(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), waiting("b", &["a"]), ready("c"), waiting("d", &["b", "c"])];
    let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
    settle(&bench, vec![fail(&done.leased[0], "no"), succeed(&done.leased[1], "1")], grant(0)).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);

    assert_eq!(retry(&bench, "acme", id).await, RetryVerdict::Accepted { execution: key.clone() });
    let statuses: Vec<_> = bench.actions(&key).await.into_iter().map(|view| view.status).collect();
    let (ready, waiting) = (ActionStatus::Ready, ActionStatus::Waiting);
    assert_eq!(statuses, [ready, waiting, ActionStatus::Succeeded, waiting]);
    let record = bench.event(&key, id).await;
    assert_eq!((record.status, record.error, record.completed_at), (EventStatus::Processing, None, None));
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);

    let a = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap().remove(0);
    assert_eq!((a.attempt, a.lease.epoch.0), (1, 2), "attempts restart, the epoch does not");
    let b = settle(&bench, vec![succeed(&a, "1")], grant(5)).await.leased.remove(0);
    let d = settle(&bench, vec![succeed(&b, "1")], grant(5)).await.leased.remove(0);
    settle(&bench, vec![succeed(&d, "1")], grant(5)).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
}

pub async fn retry_skips_handled_failures(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [
        ready("told"),
        waiting("b", &["told"]),
        ready("stuck"),
        waiting("d", &["stuck"]),
        waiting("e", &["b", "d"]),
    ];
    let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let told = fail_and_tell(&done.leased[0], event(&bench, &key, "refused"));
    settle(&bench, vec![told, fail(&done.leased[1], "no")], grant(0)).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Failed);

    assert_eq!(retry(&bench, "acme", id).await, RetryVerdict::Accepted { execution: key.clone() });
    let statuses: Vec<_> = bench.actions(&key).await.into_iter().map(|view| view.status).collect();
    let (failed, skipped) = (ActionStatus::Failed, ActionStatus::Skipped);
    assert_eq!(statuses, [failed, skipped, ActionStatus::Ready, ActionStatus::Waiting, skipped]);
    assert!(bench.action(&key, "told").await.error.is_some(), "it stays as it was");
    let stuck = bench.stores.actions.lease(&worker("w2"), &grant(5), bench.now().await).await.unwrap();
    assert_eq!(stuck.len(), 1);
    let d = settle(&bench, vec![succeed(&stuck[0], "1")], grant(5)).await.leased.remove(0);
    settle(&bench, vec![succeed(&d, "1")], grant(5)).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Completed);
}

pub async fn retry_separates_simultaneous_failures(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let id = bench.post(&key, "go").await;
    let visit = ConformanceVisit::to(&key, &state, bench.now().await)
        .act(id, "working", &[broken("stuck"), broken_and_told("told")])
        .failing("no such key");
    bench.commit_done(visit).await;
    retry(&bench, "acme", id).await;
    assert_eq!(bench.action(&key, "stuck").await.status, ActionStatus::Ready);
    assert_eq!(bench.action(&key, "told").await.status, ActionStatus::Failed);
}

pub async fn execution_resumes_after_last_blocker(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let (one, two) = (bench.post(&key, "pay").await, bench.post(&key, "ship").await);
    bury(&bench, &key, one).await;
    bury(&bench, &key, two).await;
    retry(&bench, "acme", one).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    retry(&bench, "acme", two).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
}

pub async fn only_dead_and_failed_events_retry(bench: ConformanceBench) {
    let key = execution("one");
    let (processing, state, _) = bench.acting(&key, &[ready("a")], grant(0)).await;
    let (rejected, deferred) = (bench.post(&key, "x").await, bench.post(&key, "y").await);
    let visit = ConformanceVisit::to(&key, &state, bench.now().await).reject(rejected, "no").defer(deferred);
    bench.commit_done(visit).await;
    let pending = event(&bench, &key, "z");
    bench.append_event(&pending).await;
    for (id, status) in [
        (processing, EventStatus::Processing),
        (rejected, EventStatus::Rejected),
        (deferred, EventStatus::Deferred),
        (pending.event_id, EventStatus::Pending),
    ] {
        assert_eq!(retry(&bench, "acme", id).await, RetryVerdict::NotApplicable { status });
    }
    assert!(decisions(&bench, &key).await.is_empty());
}

pub async fn retry_is_refused_for_other_tenant(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    let id = bench.post(&key, "pay").await;
    bury(&bench, &key, id).await;
    assert_eq!(retry(&bench, "rival", id).await, RetryVerdict::NotFound);
    assert_eq!(retry(&bench, "acme", bench.event_id()).await, RetryVerdict::NotFound);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Dead);
}
