//! Queues of actions: who may lease, for how long, and until when.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, Epoch};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_store::action_store::{
    LeaseHeartbeat, LeaseOrigin, LeasePulse, LeasedAction, OutcomeDemand, SettleOutcome, SettleVerdict,
    Settlement,
};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::task_board::{ExternalWorkerReport, TASK_WORKERS_KEPT};
use millstream_workflow::lease_policy::LeasePolicy;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready, waiting};
use crate::fixture::{HOUR, LONG, SHORT, execution, grant, name, raw, tenant, worker};
use crate::settle::{retry, settle, succeed};

fn on(queue: &ActionQueue) -> LeasePolicy {
    LeasePolicy { queue: queue.clone(), ..LeasePolicy::engine_for_all() }
}

fn charge() -> ActionQueue {
    ActionQueue::call_for_all(&name("charge"))
}

fn resize(labels: &[&str]) -> ActionQueue {
    let labels: BTreeSet<_> = labels.iter().map(|label| name(label)).collect();
    ActionQueue::of_task(&tenant("acme"), &name("resize"), &labels)
}

fn serving(slots: usize, queues: &[ActionQueue]) -> LeaseGrant {
    LeaseGrant { slots, ttl: LONG, queues: queues.into() }
}

async fn lease(bench: &ConformanceBench, grant: &LeaseGrant) -> Vec<LeasedAction> {
    bench.stores.actions.lease(&worker("w2"), grant, bench.now().await).await.unwrap()
}

fn names(leased: &[LeasedAction]) -> Vec<&str> {
    leased.iter().map(|action| action.lease.key.action.as_str()).collect()
}

async fn beat(bench: &ConformanceBench, action: &LeasedAction, progress: Option<&str>) -> LeasePulse {
    let beat = LeaseHeartbeat { lease: action.lease.clone(), progress: progress.map(raw) };
    bench
        .stores
        .actions
        .renew_leases(&[beat], &worker("w2"), &grant(0), bench.now().await)
        .await
        .unwrap()
        .remove(0)
}

pub async fn worker_leases_only_from_its_queues(bench: ConformanceBench) {
    let key = execution("one");
    let actions =
        [ready("log"), ready("charge").on(on(&charge())), ready("resize").on(on(&resize(&["gpu"])))];
    let (_, _, done) = bench.acting(&key, &actions, grant(5)).await;
    assert_eq!((names(&done.leased), done.unleased), (vec!["log"], 2), "taken along with the commit");
    assert!(lease(&bench, &grant(5)).await.is_empty());
    assert!(lease(&bench, &serving(5, &[resize(&[])])).await.is_empty(), "another queue of the same type");
    let both = serving(5, &[ActionQueue::engine_for_all(), charge()]);
    assert_eq!(names(&lease(&bench, &both).await), ["charge"]);
    assert_eq!(names(&lease(&bench, &serving(5, &[resize(&["gpu"])])).await), ["resize"]);
    assert_eq!(bench.action(&key, "charge").await.queue, charge());
}

pub async fn queues_share_slots_of_one_lease(bench: ConformanceBench) {
    let key = execution("one");
    let actions: Vec<_> =
        (0..6).map(|n| ready(&format!("a{n}")).on(on(&if n < 3 { charge() } else { resize(&[]) }))).collect();
    bench.acting(&key, &actions, grant(0)).await;
    let both = serving(4, &[charge(), resize(&[])]);
    let first = lease(&bench, &both).await;
    assert_eq!(first.len(), 4);
    let second = lease(&bench, &both).await;
    let all: BTreeSet<&str> = names(&first).into_iter().chain(names(&second)).collect();
    assert_eq!((second.len(), all.len()), (2, 6));
}

pub async fn one_call_leases_for_many_workers(bench: ConformanceBench) {
    let key = execution("one");
    let actions = ["a", "b", "c", "d"].map(|name| ready(name).on(on(&charge())));
    bench.acting(&key, &actions, grant(0)).await;
    let (few, all) = (serving(2, &[charge()]), serving(9, &[charge()]));
    let takers = [worker("w1"), worker("w2"), worker("w3")];
    let mut taken = Vec::new();
    let now = bench.now().await;
    assert!(bench.stores.actions.lease_each(&[], &all, now).await.unwrap().is_empty(), "without takers");
    for (takers, grant) in [(&takers[..], &few), (&takers[2..], &all)] {
        let leased = bench.stores.actions.lease_each(takers, grant, bench.now().await).await.unwrap();
        for action in leased {
            taken.push(bench.action(&key, action.lease.key.action.as_str()).await.worker_id.unwrap());
        }
    }
    assert_eq!(taken, ["w1", "w2", "w3", "w3"].map(worker), "in turn, and what is left to the last one");
}

pub async fn long_queue_does_not_starve_another(bench: ConformanceBench) {
    let many: Vec<_> = (0..8).map(|n| ready(&format!("a{n}")).on(on(&charge()))).collect();
    bench.acting(&execution("one"), &many, grant(0)).await;
    bench.passed(bench.now().await).await;
    bench.acting(&execution("two"), &[ready("last").on(on(&resize(&[])))], grant(0)).await;
    let leased = lease(&bench, &serving(4, &[charge(), resize(&[])])).await;
    assert_eq!(leased.len(), 4);
    assert!(names(&leased).contains(&"last"), "{:?}", names(&leased));
}

pub async fn dependent_is_leased_only_for_served_queue(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), waiting("charge", &["a"]).on(on(&charge())), waiting("b", &["a"])];
    let (_, _, done) = bench.acting(&key, &actions, grant(1)).await;
    let settled = settle(&bench, vec![succeed(&done.leased[0], "1")], grant(5)).await;
    assert_eq!((names(&settled.leased), settled.unleased), (vec!["b"], 1));
    assert_eq!(names(&lease(&bench, &serving(5, &[charge()])).await), ["charge"]);
}

pub async fn open_queues_are_named_once(bench: ConformanceBench) {
    let other = ActionQueue::of_task(&tenant("other"), &name("resize"), &BTreeSet::new());
    let actions = [
        ready("a").on(on(&resize(&["gpu"]))),
        ready("b").on(on(&resize(&["gpu"]))),
        ready("c").on(on(&resize(&[]))),
        ready("d").on(on(&other)),
        ready("e").on(on(&charge())),
        waiting("f", &["a"]).on(on(&resize(&["big"]))),
    ];
    let (_, _, done) = bench.acting(&execution("one"), &actions, serving(1, &[resize(&["gpu"])])).await;
    let tasks = |bench: ConformanceBench| async move {
        bench.stores.tasks.open_queues(&ActionQueue::tasks_of(&tenant("acme"))).await.unwrap()
    };
    assert_eq!(tasks(bench.clone()).await, [resize(&[]), resize(&["gpu"])]);
    assert_eq!(bench.stores.tasks.open_queues("call:").await.unwrap(), [charge()]);
    settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    assert_eq!(tasks(bench.clone()).await, [resize(&[]), resize(&["big"]), resize(&["gpu"])]);
}

pub async fn heartbeat_extends_lease_by_its_length(bench: ConformanceBench) {
    let key = execution("one");
    let terms = LeasePolicy { heartbeat: Some(SHORT), ..on(&charge()) };
    bench.acting(&key, &[ready("charge").on(terms)], grant(0)).await;
    let serving = serving(1, &[charge()]);
    let first = lease(&bench, &serving).await.remove(0);
    let LeasePulse::Held { until, wanted: OutcomeDemand::Yes } =
        beat(&bench, &first, Some(r#"{"step": 1}"#)).await
    else {
        panic!("lost")
    };
    assert!(until >= first.lease_until && until <= bench.now().await.plus(SHORT));
    assert!(matches!(beat(&bench, &first, None).await, LeasePulse::Held { .. }), "progress is kept");
    let view = bench.action(&key, "charge").await;
    assert_eq!(view.progress, Some(raw(r#"{"step": 1}"#)));
    bench.passed(view.lease_until.unwrap()).await;
    let second = lease(&bench, &serving).await.remove(0);
    assert_eq!((second.attempt, second.progress), (2, Some(raw(r#"{"step": 1}"#))));
    assert_eq!(beat(&bench, &first, Some("2")).await, LeasePulse::Lost);
    let late = settle(&bench, vec![succeed(&first, "1")], grant(0)).await;
    assert_eq!(late.verdicts, [SettleVerdict::Stale]);
}

pub async fn lease_never_outlasts_attempt_timeout(bench: ConformanceBench) {
    let terms = LeasePolicy { attempt: Some(SHORT * 3), heartbeat: Some(HOUR), ..on(&resize(&[])) };
    bench.acting(&execution("one"), &[ready("resize").on(terms)], grant(0)).await;
    let serving = serving(1, &[resize(&[])]);
    let before = bench.now().await;
    let first = lease(&bench, &serving).await.remove(0);
    assert!(first.lease_until <= bench.now().await.plus(SHORT * 3) && first.lease_until > before);
    let LeasePulse::Held { until, .. } = beat(&bench, &first, None).await else { panic!("lost") };
    assert_eq!(until, first.lease_until);
    bench.passed(until).await;
    assert_eq!(lease(&bench, &serving).await.len(), 1);
}

pub async fn holder_learns_of_cancellation(bench: ConformanceBench) {
    let key = execution("one");
    let (_, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    let cancel = bench.post(&key, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&key, &state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    let pulse = beat(&bench, &done.leased[0], None).await;
    assert!(matches!(pulse, LeasePulse::Held { wanted: OutcomeDemand::Cancelled, .. }), "{pulse:?}");
}

pub async fn unbegun_action_is_overdue_after_start(bench: ConformanceBench) {
    let key = execution("one");
    let soon = LeasePolicy { start: Some(SHORT), ..on(&resize(&[])) };
    let late = LeasePolicy { start: Some(HOUR), ..on(&resize(&[])) };
    let actions = [ready("soon").on(soon), ready("late").on(late)];
    bench.acting(&key, &actions, grant(0)).await;
    let ready_at = bench.action(&key, "soon").await.ready_at.unwrap();
    let overdue = |bench: ConformanceBench| async move {
        bench.stores.tasks.lease_overdue(&worker("w1"), &grant(5), bench.now().await).await.unwrap()
    };
    let mut found = overdue(bench.clone()).await;
    // On a busy machine the time may have passed already.
    assert!(found.is_empty() || bench.now().await >= ready_at.plus(SHORT), "before its time");
    bench.passed(ready_at.plus(SHORT)).await;
    found.extend(overdue(bench.clone()).await);
    assert_eq!(names(&found), ["soon"]);
    assert_eq!((found[0].ready_at, found[0].lease.epoch), (ready_at, Epoch(1)));
    assert!(overdue(bench).await.is_empty(), "it is leased");
}

pub async fn schedule_close_covers_all_attempts(bench: ConformanceBench) {
    let key = execution("one");
    let terms = LeasePolicy { close: Some(SHORT), start: Some(HOUR), ..LeasePolicy::engine_for_all() };
    let (_, _, done) = bench.acting(&key, &[ready("a").on(terms)], grant(1)).await;
    let now = bench.now().await;
    settle(&bench, vec![retry(&done.leased[0], now.plus(HOUR))], grant(0)).await;
    bench.passed(done.leased[0].ready_at.plus(SHORT)).await;
    let now = bench.now().await;
    let found = bench.stores.tasks.lease_overdue(&worker("w1"), &grant(5), now).await.unwrap();
    assert_eq!(names(&found), ["a"]);
    assert_eq!(found[0].attempt, 1, "giving up is no attempt");
}

pub async fn dependent_schedule_begins_when_ready(bench: ConformanceBench) {
    let key = execution("one");
    let terms = LeasePolicy { start: Some(SHORT), ..on(&charge()) };
    let actions = [ready("a"), waiting("charge", &["a"]).on(terms)];
    let (_, _, done) = bench.acting(&key, &actions, grant(1)).await;
    bench.passed(bench.now().await.plus(SHORT)).await;
    settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    let now = bench.now().await;
    let early = bench.stores.tasks.lease_overdue(&worker("w1"), &grant(5), now).await.unwrap();
    let now = bench.now().await;
    let ready_at = bench.action(&key, "charge").await.ready_at.unwrap();
    assert!(early.is_empty() || now >= ready_at.plus(SHORT));
    bench.passed(ready_at.plus(SHORT)).await;
    let now = bench.now().await;
    let late = bench.stores.tasks.lease_overdue(&worker("w1"), &grant(5), now).await.unwrap();
    assert_eq!(early.len() + late.len(), 1);
}

pub async fn postponed_attempt_is_not_counted(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("nap"), ready("b")], grant(2)).await;
    let later = bench.now().await.plus(Duration::from_millis(60));
    let outcome = SettleOutcome::Postponed { at: later, error: Some(raw(r#"{"class":"quota"}"#)) };
    let nap = &done.leased[0];
    let item = Settlement { lease: nap.lease.clone(), event_id: nap.event_id, outcome };
    let settled = settle(&bench, vec![item], grant(0)).await;
    assert_eq!(settled.verdicts, [SettleVerdict::Recorded { event: EventStatus::Processing }]);
    let view = bench.action(&key, "nap").await;
    assert_eq!((view.status, view.attempts, view.next_attempt_at), (ActionStatus::Ready, 0, Some(later)));
    assert_eq!(view.error, Some(raw(r#"{"class":"quota"}"#)), "what it waits for");
    let mut again = lease(&bench, &grant(5)).await;
    assert!(again.is_empty() || bench.now().await >= later, "too early");
    bench.passed(later).await;
    again.extend(lease(&bench, &grant(5)).await);
    let again = again.remove(0);
    assert_eq!((again.attempt, again.lease.epoch), (1, Epoch(2)));
}

pub async fn awaited_action_settles_under_its_lease(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("child"), ready("other")], grant(2)).await;
    let until = bench.now().await.plus(SHORT);
    let begun = |action: &LeasedAction, until| Settlement {
        lease: action.lease.clone(),
        event_id: action.event_id,
        outcome: SettleOutcome::Awaiting { until },
    };
    let batch = vec![begun(&done.leased[0], None), begun(&done.leased[1], Some(until))];
    settle(&bench, batch, grant(0)).await;
    assert_eq!(bench.action(&key, "child").await.status, ActionStatus::Awaiting);
    bench.passed(until).await;
    let given_up = lease(&bench, &grant(5)).await;
    assert_eq!(names(&given_up), ["other"], "only what has a time");
    let settled = settle(&bench, vec![succeed(&done.leased[0], "7")], grant(0)).await;
    assert_eq!(settled.verdicts, [SettleVerdict::Recorded { event: EventStatus::Processing }]);
    assert_eq!(bench.action(&key, "child").await.result, Some(raw("7")));
}

pub async fn unanswered_awaited_action_is_given_up(bench: ConformanceBench) {
    let key = execution("one");
    let queue = ActionQueue::of_node(&tenant("acme"), "writer", &BTreeSet::new());
    bench.acting(&key, &[ready("draft").on(on(&queue))], grant(0)).await;
    assert!(lease(&bench, &grant(5)).await.is_empty(), "it needs an executor");
    let draft = lease(&bench, &serving(5, std::slice::from_ref(&queue))).await.remove(0);
    let until = bench.now().await.plus(SHORT);
    let outcome = SettleOutcome::Awaiting { until: Some(until) };
    let accepted = Settlement { lease: draft.lease.clone(), event_id: draft.event_id, outcome };
    settle(&bench, vec![accepted], grant(0)).await;
    bench.passed(until).await;
    assert!(bench.stores.tasks.open_queues(ActionQueue::NODES).await.unwrap().is_empty());
    assert_eq!(names(&lease(&bench, &grant(5)).await), ["draft"], "and needs none any more");
}

pub async fn awaited_progress_extends_no_lease(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("draft")], grant(1)).await;
    let draft = &done.leased[0];
    assert_eq!(draft.begun, LeaseOrigin::No);
    let until = bench.now().await.plus(SHORT);
    let outcome = SettleOutcome::Awaiting { until: Some(until) };
    let accepted = Settlement { lease: draft.lease.clone(), event_id: draft.event_id, outcome };
    settle(&bench, vec![accepted], grant(0)).await;
    let told = beat(&bench, draft, Some("7")).await;
    assert_eq!(told, LeasePulse::Held { until, wanted: OutcomeDemand::Yes });
    let view = bench.action(&key, "draft").await;
    assert_eq!(
        (view.status, view.progress, view.lease_until),
        (ActionStatus::Awaiting, Some(raw("7")), Some(until))
    );
    let mut stale = draft.clone();
    stale.lease.epoch = Epoch(draft.lease.epoch.0 + 1);
    assert_eq!(beat(&bench, &stale, Some("8")).await, LeasePulse::Lost);
    bench.passed(until).await;
    let given_up = lease(&bench, &grant(5)).await.remove(0);
    assert_eq!((given_up.begun, given_up.progress), (LeaseOrigin::Awaited, Some(raw("7"))));
    assert_eq!(beat(&bench, draft, Some("9")).await, LeasePulse::Lost);
    assert_eq!(bench.action(&key, "draft").await.progress, Some(raw("7")));
    bench.stores.actions.release_leases(&[given_up.lease], bench.now().await).await.unwrap();
    assert_eq!(lease(&bench, &grant(5)).await.remove(0).begun, LeaseOrigin::Awaited, "for every taker");
}

pub async fn actions_are_found_by_key(bench: ConformanceBench) {
    let key = execution("one");
    let (_, state, _) = bench.acting(&key, &[ready("a")], grant(0)).await;
    let of = |action: &str| ActionKey { execution: key.clone(), seq: state.seq, action: name(action) };
    let found = bench.stores.tasks.find_actions(&[of("none"), of("a")]).await.unwrap();
    assert!(found[0].is_none());
    assert_eq!(found[1].as_ref().map(|view| view.key.clone()), Some(of("a")));
}

pub async fn last_external_worker_report_counts(bench: ConformanceBench) {
    let presence = |owner: &str, id: &str, kind: &str| ExternalWorkerReport {
        tenant: tenant(owner),
        name: id.to_owned(),
        kinds: [name(kind)].into(),
        labels: [name("gpu"), name("big")].into(),
    };
    let now = bench.now().await;
    let tasks = &bench.stores.tasks;
    tasks
        .record_presence(&[presence("acme", "py-1", "crop"), presence("other", "py-1", "x")], now)
        .await
        .unwrap();
    tasks
        .record_presence(&[presence("acme", "py-1", "resize"), presence("acme", "py-0", "crop")], now)
        .await
        .unwrap();
    let connected = tasks.list_connected(&tenant("acme"), now, 10).await.unwrap();
    let known: Vec<_> = connected.into_iter().map(|found| (found.presence, found.seen_at)).collect();
    assert_eq!(known, [(presence("acme", "py-0", "crop"), now), (presence("acme", "py-1", "resize"), now)]);
    let since = now.plus(Duration::from_millis(1));
    assert!(tasks.list_connected(&tenant("acme"), since, 10).await.unwrap().is_empty());
    let one = tasks.list_connected(&tenant("acme"), now, 1).await.unwrap();
    assert_eq!(one.iter().map(|found| found.presence.name.as_str()).collect::<Vec<_>>(), ["py-0"]);
}

pub async fn external_workers_per_tenant_are_bounded(bench: ConformanceBench) {
    let presence = |owner: &str, id: String| ExternalWorkerReport {
        tenant: tenant(owner),
        name: id,
        kinds: BTreeSet::new(),
        labels: BTreeSet::new(),
    };
    let (now, tasks) = (bench.now().await, &bench.stores.tasks);
    let earlier = now.minus(HOUR);
    let heard = [presence("acme", "oldest".to_owned()), presence("other", "oldest".to_owned())];
    tasks.record_presence(&heard, earlier).await.unwrap();
    let many: Vec<ExternalWorkerReport> =
        (0..TASK_WORKERS_KEPT).map(|n| presence("acme", format!("w{n}"))).collect();
    tasks.record_presence(&many, now).await.unwrap();
    let of_acme = tasks.list_connected(&tenant("acme"), earlier, usize::MAX).await.unwrap();
    assert_eq!(of_acme.len(), TASK_WORKERS_KEPT);
    assert!(of_acme.iter().all(|found| found.presence.name != "oldest"), "the oldest goes");
    assert_eq!(tasks.list_connected(&tenant("other"), earlier, 10).await.unwrap().len(), 1);
}
