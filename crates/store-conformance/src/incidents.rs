//! Incidents: opened with the failure, resolved once, each decision with its effect.

use millstream_model::id::IncidentId;
use millstream_model::status::{
    ActionStatus, EventStatus, ExecutionPhase, ExecutionStatus, IncidentResolution,
};
use millstream_store::action_store::LeasedAction;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentStatus, IncidentView, ResolveVerdict,
};
use millstream_store::intervention::DecisionRecord;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, broken, broken_and_told, ready, waiting};
use crate::fixture::{burial, event, execution, execution_of, grant, name, pausing, raw, tenant, worker};
use crate::settle::{fail, settle, succeed};

fn by(actor: &str) -> DecisionRecord {
    DecisionRecord { actor: Some(actor.to_owned()), reason: Some("looked at it".to_owned()) }
}

async fn list(bench: &ConformanceBench, filter: IncidentFilter) -> Vec<IncidentView> {
    bench.stores.incidents.list_incidents(&tenant("acme"), &filter, None, 100).await.unwrap()
}

async fn open(bench: &ConformanceBench) -> Vec<IncidentView> {
    list(bench, IncidentFilter { status: Some(IncidentStatus::Open), ..IncidentFilter::default() }).await
}

async fn resolve(bench: &ConformanceBench, id: IncidentId, how: IncidentDecision) -> ResolveVerdict {
    let now = bench.now().await;
    let batch = [(id, how)];
    bench
        .stores
        .incidents
        .resolve_incidents(&tenant("acme"), &batch, &by("ann"), now)
        .await
        .unwrap()
        .remove(0)
}

async fn lease(bench: &ConformanceBench) -> Vec<LeasedAction> {
    bench.stores.actions.lease(&worker("w2"), &grant(10), bench.now().await).await.unwrap()
}

/// An execution with a failed action `a`, on which `b` depends.
async fn stuck(bench: &ConformanceBench, id: &str) -> IncidentView {
    let key = execution(id);
    let (_, _, done) = bench.acting(&key, &[ready("a"), waiting("b", &["a"])], grant(1)).await;
    settle(bench, vec![fail(&done.leased[0], "answered 500")], grant(0)).await;
    let found = open(bench).await;
    found.into_iter().find(|view| view.execution == key).expect("an incident")
}

pub async fn failure_opens_incident_and_pauses(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    let key = execution("one");
    assert_eq!(view.action.as_ref().map(|key| key.action.clone()), Some(name("a")));
    assert_eq!((view.definition.name.clone(), view.class.as_str()), (name("order"), "status"));
    assert_eq!((view.reason.as_str(), view.resolved.clone()), ("answered 500", None));
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    let got =
        bench.stores.incidents.find_incidents(&[(tenant("acme"), view.id), (tenant("x"), view.id)]).await;
    assert_eq!(got.unwrap(), [Some(view), None]);
}

/// The text of a target must not keep its failure from being recorded; a zero may become another mark.
pub async fn incident_reason_may_hold_any_character(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    settle(&bench, vec![fail(&done.leased[0], "a\0b \u{7}\u{1f600}")], grant(0)).await;
    let marked = |text: &str| text.replace('\0', "\u{fffd}");
    let view = open(&bench).await.remove(0);
    assert_eq!(marked(&view.reason), "a\u{fffd}b \u{7}\u{1f600}");
    assert_eq!(marked(&bench.execution(&key).await.paused_reason.unwrap()), marked(&view.reason));
    assert_eq!(marked(&bench.event(&key, id).await.error.unwrap()), marked(&view.reason));
    let why = DecisionRecord { actor: None, reason: Some("c\0d".to_owned()) };
    let batch = [(view.id, IncidentDecision::Retry)];
    bench.stores.incidents.resolve_incidents(&tenant("acme"), &batch, &why, bench.now().await).await.unwrap();
    let resolved = list(&bench, IncidentFilter::default()).await.remove(0).resolved.unwrap();
    assert_eq!(marked(&resolved.reason.unwrap()), "c\u{fffd}d");
}

pub async fn equal_incidents_form_one_group(bench: ConformanceBench) {
    for n in 0..5 {
        stuck(&bench, &format!("e{n}")).await;
    }
    let other = execution("other");
    let (_, _, done) = bench.acting(&other, &[ready("z")], grant(1)).await;
    settle(&bench, vec![fail(&done.leased[0], "no")], grant(0)).await;
    let groups = bench.stores.incidents.incident_groups(&tenant("acme"), 10).await.unwrap();
    let shape: Vec<_> = groups.iter().map(|g| (g.count, g.action.clone().unwrap().to_string())).collect();
    assert_eq!(shape, [(5, "a".to_owned()), (1, "z".to_owned())]);
    assert_eq!(groups[0].sample.execution, execution("e4"), "the newest");
    assert!(groups[0].first_seen <= groups[0].last_seen);
    let fingerprint = Some(groups[0].fingerprint.clone());
    assert_eq!(list(&bench, IncidentFilter { fingerprint, ..IncidentFilter::default() }).await.len(), 5);
    assert!(bench.stores.incidents.incident_groups(&tenant("x"), 10).await.unwrap().is_empty());
}

pub async fn incidents_are_listed_newest_first(bench: ConformanceBench) {
    for n in 0..3 {
        stuck(&bench, &format!("e{n}")).await;
    }
    let all = open(&bench).await;
    let ids: Vec<_> = all.iter().map(|view| view.execution.execution.to_string()).collect();
    assert_eq!(ids, ["e2", "e1", "e0"]);
    let filter = IncidentFilter::default();
    let incidents = &bench.stores.incidents;
    let rest = incidents.list_incidents(&tenant("acme"), &filter, Some(all[0].position), 1).await.unwrap();
    assert_eq!(rest, [all[1].clone()]);
}

pub async fn incident_retry_reopens_action_and_dependents(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    let key = execution("one");
    assert_eq!(bench.action(&key, "b").await.status, ActionStatus::Skipped);
    let done = resolve(&bench, view.id, IncidentDecision::Retry).await;
    assert_eq!(done, ResolveVerdict::Done { execution: key.clone() });
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    assert_eq!(bench.event(&key, view.event_id).await.status, EventStatus::Processing);
    let again = lease(&bench).await;
    let [a] = &again[..] else { panic!("{again:?}") };
    assert_eq!((a.attempt, a.revision, a.input.clone()), (1, 0, Some(raw(r#"{"noop":  1.50}"#))));
    let settled = settle(&bench, vec![succeed(a, "1")], grant(1)).await;
    assert_eq!(settled.leased[0].lease.key.action, name("b"));
    let resolved = list(&bench, IncidentFilter::default()).await.remove(0).resolved.unwrap();
    assert_eq!((resolved.resolution, resolved.actor.as_deref()), (IncidentResolution::Retry, Some("ann")));
    let decisions = bench.stores.interventions.list_decisions(&key).await.unwrap();
    assert_eq!(decisions.last().map(|decision| decision.kind.as_str()), Some("retry"));
}

pub async fn incident_retry_with_input_raises_revision(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    let input = raw(r#"{"noop":2}"#);
    resolve(&bench, view.id, IncidentDecision::RetryWith { input: input.clone() }).await;
    let again = lease(&bench).await.remove(0);
    assert_eq!((again.input, again.revision), (Some(input), 1));
}

pub async fn incident_skip_succeeds_action_and_emits(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    let key = execution("one");
    let told = event(&bench, &key, "charged");
    let emit = Some(Box::new(told.clone()));
    resolve(&bench, view.id, IncidentDecision::Skip { result: raw("42"), emit }).await;
    let a = bench.action(&key, "a").await;
    assert_eq!((a.status, a.result), (ActionStatus::Succeeded, Some(raw("42"))));
    let b = lease(&bench).await.remove(0);
    assert_eq!((b.lease.key.action.clone(), b.results), (name("b"), [(name("a"), raw("42"))].into()));
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    assert_eq!(bench.mailbox(&key).await, [told.event_id]);
}

pub async fn incident_end_only_appends_its_event(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    let key = execution("one");
    let end = event(&bench, &key, "millstream.fail");
    let how = IncidentDecision::End { resolution: IncidentResolution::Fail, event: Box::new(end.clone()) };
    resolve(&bench, view.id, how).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    assert_eq!(bench.mailbox(&key).await, [end.event_id], "a paused mailbox shows it");
    let undecided = bench.stores.events.has_work(std::slice::from_ref(&key)).await.unwrap();
    assert_eq!(undecided, [true]);
}

pub async fn incident_is_resolved_once(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    resolve(&bench, view.id, IncidentDecision::Retry).await;
    let second = resolve(&bench, view.id, IncidentDecision::Skip { result: raw("1"), emit: None }).await;
    assert_eq!(second, ResolveVerdict::Already { resolution: IncidentResolution::Retry });
    assert_eq!(bench.action(&execution("one"), "a").await.status, ActionStatus::Ready);
    let unknown = IncidentId(uuid::Uuid::nil());
    assert_eq!(resolve(&bench, unknown, IncidentDecision::Retry).await, ResolveVerdict::NotFound);
    let other = [(view.id, IncidentDecision::Retry)];
    let now = bench.now().await;
    let foreign =
        bench.stores.incidents.resolve_incidents(&tenant("x"), &other, &by("eve"), now).await.unwrap();
    assert_eq!(foreign, [ResolveVerdict::NotFound]);
}

pub async fn incidents_of_two_failures_are_separate(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a"), ready("b")], grant(2)).await;
    settle(&bench, done.leased.iter().map(|action| fail(action, "no")).collect(), grant(0)).await;
    let found = open(&bench).await;
    assert_eq!(found.len(), 2);
    resolve(&bench, found[0].id, IncidentDecision::Retry).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Failed);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    resolve(&bench, found[1].id, IncidentDecision::Retry).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
}

pub async fn event_retry_resolves_its_incidents(bench: ConformanceBench) {
    let view = stuck(&bench, "one").await;
    let now = bench.now().await;
    bench.stores.interventions.retry_event(&tenant("acme"), view.event_id, &by("bob"), now).await.unwrap();
    assert!(open(&bench).await.is_empty());
    let resolved = list(&bench, IncidentFilter::default()).await.remove(0).resolved.unwrap();
    assert_eq!((resolved.resolution, resolved.actor.as_deref()), (IncidentResolution::Retry, Some("bob")));
}

pub async fn execution_end_resolves_open_incidents(bench: ConformanceBench) {
    let key = execution("one");
    let (_, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    settle(&bench, vec![fail(&done.leased[0], "no")], grant(0)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    let resolved = list(&bench, IncidentFilter::default()).await.remove(0).resolved.unwrap();
    assert_eq!(resolved.resolution, IncidentResolution::Ended);
}

pub async fn buried_event_incident_has_no_action(bench: ConformanceBench) {
    let key = execution_of("acme", "one");
    bench.start(&key).await;
    let dead = bench.post(&key, "pay").await;
    let buried = burial(key.clone(), dead, "crashed 5 times");
    bench.stores.interventions.bury_events(&[buried], bench.now().await).await.unwrap();
    let view = open(&bench).await.remove(0);
    assert_eq!((view.action.clone(), view.event_id), (None, dead));
    resolve(&bench, view.id, IncidentDecision::Retry).await;
    assert_eq!(bench.event(&key, dead).await.status, EventStatus::Pending);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    let buried = burial(key.clone(), dead, "crashed again");
    bench.stores.interventions.bury_events(&[buried], bench.now().await).await.unwrap();
    let view = open(&bench).await.remove(0);
    resolve(&bench, view.id, IncidentDecision::Skip { result: raw("null"), emit: None }).await;
    assert_eq!(bench.event(&key, dead).await.status, EventStatus::Rejected);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
}

pub async fn concurrent_incident_decisions_apply_once(bench: ConformanceBench) {
    for round in 0..20 {
        let view = stuck(&bench, &format!("r{round}")).await;
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (bench, id) = (bench.clone(), view.id);
                tokio::spawn(async move { resolve(&bench, id, IncidentDecision::Retry).await })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            match task.await.unwrap() {
                ResolveVerdict::Done { .. } => done += 1,
                ResolveVerdict::Already { .. } => {}
                ResolveVerdict::NotFound => panic!("it is there"),
            }
        }
        assert_eq!(done, 1, "round {round}");
    }
}

pub async fn inline_failure_opens_incident(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let id = bench.post(&key, "go").await;
    let actions = [broken("a"), waiting("b", &["a"]), broken_and_told("c"), ready("d")];
    let visit = ConformanceVisit::to(&key, &state, bench.now().await).act(id, "working", &actions);
    bench.commit_done(visit.failing("no input").with_incidents("no input")).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    let found = open(&bench).await;
    let [view] = &found[..] else { panic!("{found:?}") };
    assert_eq!(view.action.as_ref().map(|key| key.action.clone()), Some(name("a")));
    assert_eq!((view.event_id, view.reason.as_str()), (id, "no input"));
    resolve(&bench, view.id, IncidentDecision::RetryWith { input: raw("7") }).await;
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
    let again = lease(&bench).await;
    let a = again.iter().find(|action| action.lease.key.action == name("a")).expect("reopened");
    assert_eq!((a.input.clone(), a.revision, a.attempt), (Some(raw("7")), 1, 1));
    assert_eq!(bench.action(&key, "c").await.status, ActionStatus::Failed);
}

pub async fn failure_in_ending_commit_opens_none(bench: ConformanceBench) {
    let key = execution("one");
    let state = bench.start(&key).await;
    let (id, last) = (bench.post(&key, "go").await, bench.post(&key, "end").await);
    let visit = ConformanceVisit::to(&key, &state, bench.now().await).act(id, "working", &[broken("a")]);
    let visit = visit.failing("no").with_incidents("no").end(last, "done", ExecutionPhase::Completed);
    bench.commit_done(visit).await;
    assert_eq!(list(&bench, IncidentFilter::default()).await, []);
    assert_eq!(bench.action(&key, "a").await.status, ActionStatus::Failed);
    let view = bench.execution(&key).await;
    assert_eq!((view.status, view.paused_reason), (ExecutionStatus::Completed, None));
}

/// The failure is on record, and the event can be retried by its id.
pub async fn failure_after_end_opens_none(bench: ConformanceBench) {
    let key = execution("one");
    let (id, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let (last, late) = (bench.post(&key, "close").await, bench.post(&key, "late").await);
    let now = bench.now().await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, now).end(last, "closed", ExecutionPhase::Completed))
        .await;
    settle(&bench, vec![fail(&done.leased[0], "answered 500")], grant(0)).await;
    bench.stores.interventions.bury_events(&[burial(key.clone(), late, "crashed")], now).await.unwrap();
    assert_eq!(list(&bench, IncidentFilter::default()).await, []);
    let failed = bench.event(&key, id).await;
    assert_eq!((failed.status, failed.error.as_deref()), (EventStatus::Failed, Some("answered 500")));
    assert_eq!(bench.event(&key, late).await.status, EventStatus::Dead);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Completed);
    bench.stores.interventions.retry_event(&tenant("acme"), id, &by("ann"), now).await.unwrap();
    assert_eq!(lease(&bench).await.len(), 1);
}

/// A parent waits for the outcome.
pub async fn failed_reserved_action_opens_incident_after_end(bench: ConformanceBench) {
    let key = execution("one");
    let (id, state, done) = bench.acting(&key, &[ready("millstream.return")], grant(1)).await;
    let last = bench.post(&key, "close").await;
    let now = bench.now().await;
    bench
        .commit_done(ConformanceVisit::to(&key, &state, now).end(last, "closed", ExecutionPhase::Completed))
        .await;
    settle(&bench, vec![fail(&done.leased[0], "no such definition")], grant(0)).await;
    let view = open(&bench).await.remove(0);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Completed, "it pauses nothing");
    resolve(&bench, view.id, IncidentDecision::Retry).await;
    assert_eq!(lease(&bench).await.len(), 1);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
}

pub async fn undecodable_execution_opens_incident_of_event(bench: ConformanceBench) {
    let (key, idle) = (execution("one"), execution("idle"));
    bench.start(&key).await;
    bench.start(&idle).await;
    let (first, _) = (bench.post(&key, "pay").await, bench.post(&key, "pay").await);
    let pauses = [pausing(&key, "no state"), pausing(&idle, "no log"), pausing(&key, "again")];
    bench.stores.interventions.pause_executions(&pauses, bench.now().await).await.unwrap();
    bench.stores.interventions.pause_executions(&pauses, bench.now().await).await.unwrap();
    let found = open(&bench).await;
    assert_eq!(found.len(), 2, "one each: {found:?}");
    let view = found.into_iter().find(|view| view.execution == key).unwrap();
    assert_eq!((view.action.clone(), view.event_id, view.class.as_str()), (None, first, "corrupt"));
    assert_eq!((view.reason.as_str(), view.definition.name.clone()), ("no state", name("order")));

    resolve(&bench, view.id, IncidentDecision::Retry).await;
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    assert_eq!(bench.event(&key, first).await.status, EventStatus::Pending);
    assert_eq!(bench.mailbox(&key).await.len(), 2, "nothing was decided, nothing is twice");
}

/// Ending it may fail as well: that failure must not be lost.
pub async fn failed_end_request_opens_incident_again(bench: ConformanceBench) {
    let key = execution("one");
    bench.start(&key).await;
    bench.post(&key, "pay").await;
    bench
        .stores
        .interventions
        .pause_executions(&[pausing(&key, "no state")], bench.now().await)
        .await
        .unwrap();
    let view = open(&bench).await.remove(0);
    let event = Box::new(event(&bench, &key, "millstream.cancel"));
    resolve(&bench, view.id, IncidentDecision::End { resolution: IncidentResolution::Cancel, event }).await;
    assert_eq!(open(&bench).await, []);
    bench
        .stores
        .interventions
        .pause_executions(&[pausing(&key, "still none")], bench.now().await)
        .await
        .unwrap();
    assert_eq!(open(&bench).await.len(), 1);
    let view = bench.execution(&key).await;
    assert_eq!(view.paused_reason.as_deref(), Some("no state"), "the pause keeps its first reason");
}

pub async fn duplicate_incident_decision_applies_once(bench: ConformanceBench) {
    let (one, two) = (stuck(&bench, "one").await, stuck(&bench, "two").await);
    let skip = IncidentDecision::Skip { result: raw("1"), emit: None };
    let batch = [(one.id, IncidentDecision::Retry), (two.id, skip.clone()), (one.id, skip)];
    let now = bench.now().await;
    let resolved =
        bench.stores.incidents.resolve_incidents(&tenant("acme"), &batch, &by("ann"), now).await.unwrap();
    let done = |id: &str| ResolveVerdict::Done { execution: execution(id) };
    assert_eq!(
        resolved,
        [done("one"), done("two"), ResolveVerdict::Already { resolution: IncidentResolution::Retry }]
    );
    let statuses = [("one", ActionStatus::Ready), ("two", ActionStatus::Succeeded)];
    for (id, status) in statuses {
        assert_eq!(bench.action(&execution(id), "a").await.status, status, "{id}");
    }
    assert!(open(&bench).await.is_empty());
}

pub async fn two_incidents_of_event_resolve_together(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), waiting("c", &["a", "b"])];
    let (id, _, done) = bench.acting(&key, &actions, grant(2)).await;
    settle(&bench, done.leased.iter().map(|action| fail(action, "no")).collect(), grant(0)).await;
    let skip = IncidentDecision::Skip { result: raw("1"), emit: None };
    let batch: Vec<_> = open(&bench).await.into_iter().map(|view| (view.id, skip.clone())).collect();
    let now = bench.now().await;
    bench.stores.incidents.resolve_incidents(&tenant("acme"), &batch, &by("ann"), now).await.unwrap();
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    assert_eq!(bench.event(&key, id).await.status, EventStatus::Processing);
    let c = lease(&bench).await.remove(0);
    assert_eq!(c.results, [(name("a"), raw("1")), (name("b"), raw("1"))].into());
}

pub async fn skip_of_last_action_completes_event(bench: ConformanceBench) {
    let key = execution("one");
    let (id, _, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    settle(&bench, vec![fail(&done.leased[0], "no")], grant(0)).await;
    let view = open(&bench).await.remove(0);
    resolve(&bench, view.id, IncidentDecision::Skip { result: raw("1"), emit: None }).await;
    let event = bench.event(&key, id).await;
    assert_eq!((event.status, event.error), (EventStatus::Completed, None));
    assert!(event.completed_at.is_some());
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
}

pub async fn incidents_are_removed_with_execution(bench: ConformanceBench) {
    let (key, other) = (execution("one"), stuck(&bench, "other").await);
    let (_, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    settle(&bench, vec![fail(&done.leased[0], "no")], grant(0)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    let later = bench.passed(bench.execution(&key).await.updated_at).await;
    let outlived = millstream_store::housekeeping::RetentionCutoffs::uniform(later);
    assert_eq!(bench.stores.housekeeping.purge_executions(outlived, 10).await.unwrap(), 1);
    let left: Vec<_> =
        list(&bench, IncidentFilter::default()).await.into_iter().map(|view| view.id).collect();
    assert_eq!(left, [other.id]);
}
