//! Retention: what is removed, what must stay.

use std::collections::BTreeSet;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::ExecutionKey;
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::event_log::{AppendRequest, Appended, SignalSubmission};
use millstream_store::graph_store::ExecutorLogText;
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_store::outbox::ParcelLimit;
use millstream_store::task_board::ExternalWorkerReport;
use millstream_store::views::EventFilter;
use millstream_store::worker_store::WorkerHeartbeat;
use millstream_workflow::log::ExecutionState;

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready};
use crate::fixture::{HOUR, armed_execution, event, execution, grant, keyed, name, tenant, timer};
use crate::graph::{dispatch, node, running};
use crate::relations::{send, signal};
use crate::settle::{settle, succeed};

async fn exists(bench: &ConformanceBench, key: &ExecutionKey) -> bool {
    let keys = std::slice::from_ref(key);
    bench.stores.execution_views.find_executions(keys).await.unwrap()[0].is_some()
}

/// Complete an execution as if it had happened at `at`.
async fn end_at(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    state: &ExecutionState,
    at: Timestamp,
) -> ExecutionState {
    end_as(bench, key, state, ExecutionPhase::Completed, at).await
}

async fn end_as(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    state: &ExecutionState,
    phase: ExecutionPhase,
    at: Timestamp,
) -> ExecutionState {
    let last = bench.post(key, "close").await;
    // The transition's time counts as the last update, so `state` must carry the same time.
    let state = ExecutionState { at, ..state.clone() };
    let commit = ConformanceVisit::to(key, &state, at).end(last, "closed", phase).commit();
    let worker = crate::fixture::worker("w1");
    let after = commit.state.clone();
    let batch = bench.placed(vec![commit]).await;
    crate::commit_builder::done(
        bench.stores.executions.commit_executions(&worker, &batch, &grant(0), at).await.unwrap().remove(0),
    );
    after
}

pub async fn only_old_ended_executions_are_purged(bench: ConformanceBench) {
    let now = bench.now().await;
    let (old, young, active) = (execution("old"), execution("young"), execution("active"));
    for key in [&old, &young, &active] {
        let state = bench.start(key).await;
        if *key == old {
            end_at(&bench, key, &state, now.minus(HOUR * 2)).await;
        } else if *key == young {
            end_at(&bench, key, &state, now).await;
        }
    }
    let purge = &bench.stores.housekeeping;
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now.minus(HOUR * 3)), 10).await.unwrap(), 0);
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now.minus(HOUR)), 10).await.unwrap(), 1);
    assert!(!exists(&bench, &old).await && exists(&bench, &young).await && exists(&bench, &active).await);
    assert_eq!(
        purge.purge_executions(RetentionCutoffs::uniform(bench.now().await.plus(HOUR)), 10).await.unwrap(),
        1
    );
    assert!(exists(&bench, &active).await, "an active execution never goes");
}

pub async fn retention_differs_by_way_of_ending(bench: ConformanceBench) {
    let now = bench.now().await;
    let ended =
        [("c", ExecutionPhase::Completed), ("f", ExecutionPhase::Failed), ("x", ExecutionPhase::Cancelled)]
            .map(|(name, phase)| (execution(name), phase));
    for (key, phase) in &ended {
        let state = bench.start(key).await;
        end_as(&bench, key, &state, *phase, now.minus(HOUR * 2)).await;
    }
    let purge = &bench.stores.housekeeping;
    let never = now.minus(HOUR * 3);
    for at in 0..ended.len() {
        let mut outlived = RetentionCutoffs::uniform(never);
        match ended[at].1 {
            ExecutionPhase::Active => {}
            ExecutionPhase::Completed => outlived.completed = now,
            ExecutionPhase::Failed => outlived.failed = now,
            ExecutionPhase::Cancelled => outlived.cancelled = now,
        }
        assert_eq!(purge.purge_executions(outlived, 10).await.unwrap(), 1);
        for (later, (key, phase)) in ended.iter().enumerate() {
            assert_eq!(exists(&bench, key).await, later > at, "{phase}");
        }
    }
}

pub async fn purged_execution_loses_all_rows(bench: ConformanceBench) {
    let now = bench.now().await;
    let key = execution("one");
    let timers = vec![timer(millstream_model::id::Seq(0), 0, now.plus(HOUR), "late")];
    let state = bench.start_as(armed_execution(&bench, &key, timers, now)).await;
    let id = bench.post(&key, "go").await;
    let visit = ConformanceVisit::to(&key, &state, now).act(id, "working", &[ready("a")]);
    let after = visit.clone().commit().state;
    let done = crate::commit_builder::done(bench.commit(vec![visit], grant(1)).await.remove(0));
    settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    end_at(&bench, &key, &after, now.minus(HOUR)).await;
    assert_eq!(
        bench.stores.housekeeping.purge_executions(RetentionCutoffs::uniform(now), 10).await.unwrap(),
        1
    );

    let views = &bench.stores.execution_views;
    assert!(views.read_history(&key, millstream_model::id::Seq(0), 10).await.unwrap().entries.is_empty());
    assert!(bench.actions(&key).await.is_empty() && bench.timers(&key).await.is_empty());
    assert_eq!(bench.stores.timers.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(), None);
    let all = bench.stores.event_views.list_events(&key.tenant, &EventFilter::default(), None, 10).await;
    assert!(all.unwrap().is_empty());
    assert!(bench.stores.interventions.list_decisions(&key).await.unwrap().is_empty());
    bench.start(&key).await;
    assert_eq!(bench.execution(&key).await.state.seq.0, 1, "its id is free again");
}

pub async fn graph_is_purged_with_execution(bench: ConformanceBench) {
    let now = bench.now().await;
    let (key, other) = (execution("g"), execution("stays"));
    let mut after = None;
    for key in [&other, &key] {
        let nodes = vec![node("a", &[], &[]), node("b", &[], &[])];
        after = Some(bench.graph_with(key, nodes, vec![running("a")]).await);
        bench.dispatch(&[dispatch(key, "a", 1)], 0).await;
        let text =
            ExecutorLogText { execution: key.clone(), node: name("a"), attempt: 1, text: "line".to_owned() };
        bench.stores.graphs.append_logs(&[text], now).await.unwrap();
    }
    end_at(&bench, &key, &after.unwrap(), now.minus(HOUR)).await;
    let (outbox, sink) = (&bench.stores.outbox, name("sink"));
    assert_eq!(outbox.spread_entries(std::slice::from_ref(&sink), 99, now).await.unwrap(), 6);
    assert_eq!(
        bench.stores.housekeeping.purge_executions(RetentionCutoffs::uniform(now), 10).await.unwrap(),
        1
    );
    let views = &bench.stores.graph_views;
    assert!(views.find_graphs(&[key.clone()]).await.unwrap()[0].is_none());
    assert!(bench.nodes(&key).await.is_empty() && bench.feed(&key).await.is_empty());
    assert!(views.read_logs(&key, &name("a"), 0, 9).await.unwrap().is_empty());
    assert!(bench.dispatch(&[dispatch(&key, "a", 1)], 0).await[0].is_none());
    let untold = outbox.due_parcels(&sink, ParcelLimit { executions: 99, entries: 99 }, now).await.unwrap();
    assert_eq!(untold.iter().map(|parcel| &parcel.execution).collect::<Vec<_>>(), [&other]);
    let last = untold[0].entries.last().unwrap().position;
    assert_eq!((bench.nodes(&other).await.len(), untold[0].entries.len()), (2, 3));
    assert_eq!(views.read_logs(&other, &name("a"), 0, 9).await.unwrap().len(), 1);

    bench.start_graph(&key, vec![node("c", &[], &[])]).await;
    assert_eq!(bench.nodes(&key).await.len(), 1, "its id is free again");
    assert!(bench.feed(&key).await[0].position > last, "and no position is used twice");
}

pub async fn execution_with_open_actions_is_kept(bench: ConformanceBench) {
    let now = bench.now().await;
    let key = execution("one");
    let (_, state, done) = bench.acting(&key, &[ready("a")], grant(1)).await;
    end_at(&bench, &key, &state, now.minus(HOUR)).await;
    let purge = &bench.stores.housekeeping;
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 10).await.unwrap(), 0);
    settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 10).await.unwrap(), 1);
}

pub async fn execution_with_undecided_events_is_kept(bench: ConformanceBench) {
    let now = bench.now().await;
    let key = execution("one");
    let state = bench.start(&key).await;
    let state = end_at(&bench, &key, &state, now.minus(HOUR)).await;
    let late = bench.post(&key, "pay").await;
    let purge = &bench.stores.housekeeping;
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 10).await.unwrap(), 0);
    let rejection = ConformanceVisit::to(&key, &state, now).reject(late, "ended");
    bench.commit_done(rejection).await;
    assert_eq!(
        purge.purge_executions(RetentionCutoffs::uniform(bench.now().await.plus(HOUR)), 10).await.unwrap(),
        1
    );
}

pub async fn purge_respects_its_limit(bench: ConformanceBench) {
    let now = bench.now().await;
    for n in 0..5 {
        let key = execution(&format!("e{n}"));
        let state = bench.start(&key).await;
        end_at(&bench, &key, &state, now.minus(HOUR)).await;
    }
    let purge = &bench.stores.housekeeping;
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 3).await.unwrap(), 3);
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 3).await.unwrap(), 2);
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 3).await.unwrap(), 0);
}

pub async fn keys_outlive_their_events(bench: ConformanceBench) {
    let now = bench.now().await;
    let key = execution("one");
    let state = bench.start(&key).await;
    let sent = keyed(event(&bench, &key, "pay"), "k", 1);
    bench.stores.events.append(&[AppendRequest::Event(sent.clone())], now.minus(HOUR * 2)).await.unwrap();
    let state = bench.commit_done(ConformanceVisit::to(&key, &state, now).apply(sent.event_id, "paid")).await;
    let purge = &bench.stores.housekeeping;
    assert_eq!(purge.purge_keys(now, 10).await.unwrap(), 0, "the event is still there");
    end_at(&bench, &key, &state, now.minus(HOUR)).await;
    assert_eq!(purge.purge_executions(RetentionCutoffs::uniform(now), 10).await.unwrap(), 1);

    let again = keyed(event(&bench, &key, "pay"), "k", 1);
    let repeat = Appended::Repeat { event_id: sent.event_id, status: EventStatus::Completed };
    assert_eq!(bench.append_event(&again).await, repeat);
    let other = keyed(event(&bench, &key, "pay"), "k", 2);
    assert_eq!(bench.append_event(&other).await, Appended::Mismatch);
    assert_eq!(purge.purge_keys(now.minus(HOUR * 3), 10).await.unwrap(), 0, "the key is younger");
    assert_eq!(purge.purge_keys(now, 10).await.unwrap(), 1);
    assert_eq!(bench.append_event(&again).await, Appended::NoExecution);
}

pub async fn silent_workers_are_purged(bench: ConformanceBench) {
    let now = bench.now().await;
    for (id, seen) in [("old", now.minus(HOUR)), ("new", now)] {
        let beat = WorkerHeartbeat {
            worker: crate::fixture::worker(id),
            started_at: now,
            lanes: Vec::new(),
            in_flight: 0,
            version: String::new(),
            calls: Vec::new(),
        };
        bench.stores.workers.record_worker_heartbeat(&beat, seen).await.unwrap();
    }
    assert_eq!(bench.stores.housekeeping.purge_workers(now).await.unwrap(), 1);
    let left = bench.stores.workers.list_workers(Timestamp::EPOCH).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].beat.worker.as_str(), "new");
}

pub async fn silent_external_workers_expired_signals_are_purged(bench: ConformanceBench) {
    let now = bench.now().await;
    let tasks = &bench.stores.tasks;
    for (id, seen) in [("old", now.minus(HOUR)), ("new", now)] {
        let presence = ExternalWorkerReport {
            tenant: tenant("acme"),
            name: id.to_owned(),
            kinds: BTreeSet::new(),
            labels: BTreeSet::new(),
        };
        tasks.record_presence(&[presence], seen).await.unwrap();
    }
    let expired = SignalSubmission { expires_at: now.minus(HOUR), ..signal(&bench, "o-1", now) };
    let waiting = signal(&bench, "o-1", now);
    for sent in [&expired, &waiting] {
        assert_eq!(send(&bench, sent).await, Appended::Buffered);
    }
    assert_eq!(bench.stores.housekeeping.purge_workers(now).await.unwrap(), 0, "workers are counted");
    let left = tasks.list_connected(&tenant("acme"), Timestamp::EPOCH, 10).await.unwrap();
    assert_eq!(left.iter().map(|found| found.presence.name.as_str()).collect::<Vec<_>>(), ["new"]);
    let ids = [expired.event_id, waiting.event_id].map(|id| (tenant("acme"), id));
    let kept = bench.stores.relations.find_signals(&ids).await.unwrap();
    assert!(kept[0].is_none() && kept[1].is_some());
}

pub async fn store_time_never_goes_back(bench: ConformanceBench) {
    let first = bench.now().await;
    let later = bench.passed(first).await;
    assert!(later > first && bench.now().await >= later);
}
