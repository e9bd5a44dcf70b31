//! Outbound events of graphs: whole workers, on paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_model::id::{ExecutionKey, Seq};
use millstream_store::feed::FeedContent;
use millstream_testkit::eventually;
use millstream_worker::WorkerOptions;
use millstream_worker::outbound::{CloudEvent, SinkFilter, SinkLoad};
use millstream_workflow::graph_machine::transition_notices;

use crate::bench::{WorkerBench, key};
use crate::graphs::{create, desk, options, passed};
use crate::listener::{ScriptedSink, SinkMood, dice};

/// In real time; the workers' time is virtual.
const IN_THE_END: Duration = Duration::from_secs(90);

/// The expected events of a graph, from the store alone.
async fn told(bench: &WorkerBench, graph: &ExecutionKey) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for entry in bench.stores.feed.read_feed(graph, 0, usize::MAX).await.unwrap() {
        let kinds: Vec<String> = match entry.what {
            FeedContent::Transitions { first, last } => {
                let views = &bench.stores.execution_views;
                let page = views.read_history(graph, Seq(first.0 - 1), 1_000).await.unwrap();
                let transitions = page.entries.iter().map(|entry| &entry.transition);
                let within = transitions.filter(|transition| transition.seq <= last);
                within.flat_map(transition_notices).map(|notice| notice.kind().to_owned()).collect()
            }
            FeedContent::Dispatched(list) => {
                let list: Vec<serde_json::Value> = list.decode().unwrap();
                list.iter().map(|_| "node.dispatched".to_owned()).collect()
            }
        };
        for (index, kind) in kinds.into_iter().enumerate() {
            told.push((format!("{}.{index}", entry.position), format!("millstream.graph.{kind}")));
        }
    }
    told
}

/// Graphs that run to their end, each a chain of `nodes` nodes.
async fn chains(bench: &WorkerBench, graphs: usize, nodes: usize) -> Vec<ExecutionKey> {
    let mut keys = Vec::new();
    for graph in 0..graphs {
        let nodes = (0..nodes).map(|node| {
            let parents: Vec<String> = (node > 0).then(|| format!("n{}", node - 1)).into_iter().collect();
            serde_json::json!({ "id": format!("n{node}"), "parents": parents })
        });
        let spec = serde_json::json!({ "name": "chain", "nodes": nodes.collect::<Vec<_>>() });
        keys.push(create(bench, &format!("g-{graph}"), spec).await);
    }
    keys
}

/// All events of all graphs arrive, in order.
async fn hears_everything(bench: &WorkerBench, listener: &ScriptedSink, graphs: &[ExecutionKey]) {
    let mut wanted = BTreeMap::new();
    eventually(IN_THE_END, || async {
        let mut ended = 0;
        for graph in graphs {
            ended += usize::from(bench.execution(graph).await.state.phase.is_ended());
        }
        if ended == graphs.len() { Ok(()) } else { Err(format!("{ended} have ended")) }
    })
    .await;
    for graph in graphs {
        let all = told(bench, graph).await;
        wanted.insert(graph.execution.to_string(), all);
    }
    let enough: usize = wanted.values().map(Vec::len).sum();
    eventually(IN_THE_END, || async {
        let heard = listener.heard().len() - listener.repetitions();
        if heard >= enough { Ok(()) } else { Err(format!("{heard} of {enough}")) }
    })
    .await;
    assert_eq!(listener.first_heard(), wanted);
}

fn performing(bench: &WorkerBench) -> crate::bench::BenchWorker {
    bench.worker_performing(desk(|request| Ok(passed(request, "1"))), options(bench))
}

#[tokio::test(start_paused = true)]
async fn graph_events_arrive_in_order_at_sink() {
    for seed in [1, 2, 3] {
        let mut bench = WorkerBench::new();
        let roll = dice(seed);
        let moody = Arc::new(ScriptedSink::who("moody", move |events| match roll(10) {
            0 => SinkMood::Refuse,
            1 => SinkMood::Away,
            2 => SinkMood::BreakAfter(usize::try_from(roll(events.len() as u64 + 1)).unwrap()),
            _ => SinkMood::Take,
        }));
        let calm = Arc::new(ScriptedSink::who("calm", |_| SinkMood::Take));
        bench.sinks = vec![moody.clone(), calm.clone()];
        let _worker = performing(&bench);
        let graphs = chains(&bench, 40, 8).await;
        hears_everything(&bench, &calm, &graphs).await;
        hears_everything(&bench, &moody, &graphs).await;
        assert_eq!(calm.repetitions(), 0, "seed {seed}: another sink has no effect");
        assert!(moody.repetitions() > 0, "seed {seed}: it broke off in the middle");
        assert!(calm.heard().len() > 1_000, "seed {seed}: {}", calm.heard().len());
    }
}

#[tokio::test(start_paused = true)]
async fn next_publisher_keeps_event_order() {
    let mut bench = WorkerBench::new();
    let roll = dice(4);
    let listener = Arc::new(ScriptedSink::who("sink", move |events| match roll(4) {
        0 => SinkMood::BreakAfter(usize::try_from(roll(events.len() as u64 + 1)).unwrap()),
        _ => SinkMood::Take,
    }));
    bench.sinks = vec![listener.clone()];
    let hasty = || WorkerOptions { executors: options(&bench).executors, ..bench.hasty() };
    let answer = || desk(|request| Ok(passed(request, "1")));
    let mut workers =
        vec![bench.worker_performing(answer(), hasty()), bench.worker_performing(answer(), hasty())];
    let graphs = chains(&bench, 30, 6).await;
    for round in 1..=4 {
        eventually(IN_THE_END, || async {
            let heard = listener.heard().len();
            if heard >= round * 100 { Ok(()) } else { Err(heard) }
        })
        .await;
        for worker in std::mem::take(&mut workers) {
            worker.kill().await;
        }
        workers.push(bench.worker_performing(answer(), hasty()));
        workers.push(bench.worker_performing(answer(), hasty()));
    }
    hears_everything(&bench, &listener, &graphs).await;
}

#[tokio::test(start_paused = true)]
async fn unavailable_sink_gets_graph_events_later() {
    let mut bench = WorkerBench::new();
    let back = Arc::new(AtomicBool::new(false));
    let gone = Arc::new(ScriptedSink::who("gone", {
        let back = back.clone();
        move |_| if back.load(Ordering::Relaxed) { SinkMood::Take } else { SinkMood::Away }
    }));
    let calm = Arc::new(ScriptedSink::who("calm", |_| SinkMood::Take));
    bench.sinks = vec![gone.clone(), calm.clone()];
    let _worker = performing(&bench);
    let graphs = chains(&bench, 20, 5).await;
    hears_everything(&bench, &calm, &graphs).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!((gone.heard().len(), calm.repetitions()), (0, 0));
    let backlogs = bench.stores.outbox.count_backlogs().await.unwrap();
    assert_eq!(backlogs.iter().map(|backlog| backlog.sink.as_str()).collect::<Vec<_>>(), ["gone"]);
    assert_eq!(backlogs[0].executions, 20);
    let before = gone.asked.load(Ordering::Relaxed);
    assert!(before < 400, "it was asked {before} times in an hour");
    back.store(true, Ordering::Relaxed);
    hears_everything(&bench, &gone, &graphs).await;
    assert_eq!((gone.repetitions(), calm.repetitions()), (0, 0));
    assert!(bench.stores.outbox.count_backlogs().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn refused_graph_delays_no_other() {
    let mut bench = WorkerBench::new();
    let pardoned = Arc::new(AtomicBool::new(false));
    let picky = Arc::new(ScriptedSink::who("picky", {
        let pardoned = pardoned.clone();
        move |events| {
            let is_bad = events.iter().any(|event| event.subject == "g-3");
            if is_bad && !pardoned.load(Ordering::Relaxed) { SinkMood::Refuse } else { SinkMood::Take }
        }
    }));
    bench.sinks = vec![picky.clone()];
    let _worker = performing(&bench);
    let graphs = chains(&bench, 20, 5).await;
    let good: Vec<ExecutionKey> = graphs.iter().filter(|graph| **graph != key("g-3")).cloned().collect();
    hears_everything(&bench, &picky, &good).await;
    assert!(picky.heard().iter().all(|event| event.subject != "g-3"));
    let (asked, later) = (picky.asked.load(Ordering::Relaxed), bench.now().plus(Duration::from_secs(600)));
    eventually(IN_THE_END, || async { if bench.now() >= later { Ok(()) } else { Err(bench.now()) } }).await;
    let again = picky.asked.load(Ordering::Relaxed) - asked;
    assert!((1..16).contains(&again), "it was asked {again} times in ten minutes");
    pardoned.store(true, Ordering::Relaxed);
    hears_everything(&bench, &picky, &graphs).await;
    assert_eq!(picky.repetitions(), 0);
}

#[tokio::test(start_paused = true)]
async fn filtered_graph_events_cause_no_lag() {
    let mut bench = WorkerBench::new();
    let ends = Arc::new(ScriptedSink {
        taste: SinkFilter::of_types(["workflow.*"]).unwrap(),
        ..ScriptedSink::who("ends", |_| SinkMood::Take)
    });
    bench.sinks = vec![ends.clone()];
    let _worker = performing(&bench);
    chains(&bench, 5, 3).await;
    eventually(IN_THE_END, || async {
        let heard = ends.heard().len();
        if heard == 10 { Ok(()) } else { Err(heard) }
    })
    .await;
    for (graph, heard) in ends.first_heard() {
        let kinds: Vec<&str> = heard.iter().map(|(_, kind)| kind.as_str()).collect();
        let wanted = ["millstream.graph.workflow.created", "millstream.graph.workflow.completed"];
        assert_eq!(kinds, wanted, "{graph}");
    }
    assert!(bench.stores.outbox.count_backlogs().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn single_event_requests_deliver_everything() {
    let mut bench = WorkerBench::new();
    let roll = dice(9);
    let mood = move |_: &[CloudEvent]| if roll(5) == 0 { SinkMood::Away } else { SinkMood::Take };
    let single = Arc::new(ScriptedSink {
        load: SinkLoad { requests: 4, events: 1, bytes: 1 },
        ..ScriptedSink::who("single", mood)
    });
    bench.sinks = vec![single.clone()];
    let _worker = performing(&bench);
    let graphs = chains(&bench, 10, 4).await;
    hears_everything(&bench, &single, &graphs).await;
    // An entry may contain several events: the accepted ones are recorded.
    assert_eq!(single.repetitions(), 0, "an event that was not accepted is no repetition");
}

#[tokio::test(start_paused = true)]
async fn feed_without_sinks_does_not_grow() {
    let mut bench = WorkerBench::new();
    let worker = performing(&bench);
    let before = chains(&bench, 3, 2).await;
    for graph in &before {
        crate::graphs::ended(&bench, graph).await;
    }
    let later = bench.now().plus(Duration::from_secs(120));
    eventually(IN_THE_END, || async { if bench.now() >= later { Ok(()) } else { Err(bench.now()) } }).await;
    assert_eq!(bench.stores.outbox.spread_entries(&[], 99, later).await.unwrap(), 0, "everything was marked");
    worker.drain().await;
    let late = Arc::new(ScriptedSink::who("late", |_| SinkMood::Take));
    bench.sinks = vec![late.clone()];
    let _worker = performing(&bench);
    let after = create(&bench, "after", serde_json::json!({ "name": "x", "nodes": [{ "id": "a" }] })).await;
    hears_everything(&bench, &late, &[after]).await;
}
