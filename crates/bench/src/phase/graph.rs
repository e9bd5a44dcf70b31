//! Graph benchmark: from the request that creates a graph until it has ended.
//!
//! The executor counts performed nodes in this process, so waiting costs the engine nothing until the last
//! one is done. Then the engine is polled until the graph has ended.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::window::{Spent, Window, per_second};
use crate::error::{BenchError, Result};
use crate::graph::{self, EXECUTOR, GraphReport, GraphRun, GraphShape, Graphs, GraphsReport, Growth};
use crate::quiet::{Counters, Next, Watch};
use crate::target::{Subject, Workers};
use crate::usage::{GENERATOR, as_f64};
use crate::verify;
use crate::workload::Hands;
use crate::world::World;

/// Interval between two readings of the executor's counter, and minimum interval between two polls of the
/// engine.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The graphs of one run.
#[derive(Debug, Clone, Copy)]
struct Load<'a> {
    shape: GraphShape,
    nodes: usize,
    graphs: usize,
    /// Graphs are `{prefix}{number}`.
    prefix: &'a str,
}

/// Runs in rounds, each shape and size once, so that compared runs meet the same state of the machine.
pub(crate) async fn measure(world: &World, wanted: &Graphs) -> Result<GraphsReport> {
    let kinds = wanted.shapes.iter().flat_map(|shape| wanted.nodes.iter().map(|nodes| (*shape, *nodes)));
    let mut all: Vec<(GraphShape, usize, Vec<GraphRun>)> =
        kinds.map(|(shape, nodes)| (shape, nodes, Vec::new())).collect();
    for _ in 0..world.plan.runs {
        for (shape, nodes, runs) in &mut all {
            runs.push(once(world, wanted, *shape, *nodes).await?);
        }
    }
    let graphs: Vec<GraphReport> =
        all.into_iter().filter_map(|(shape, nodes, runs)| GraphReport::of(shape, nodes, runs)).collect();
    let growth = wanted.shapes.iter().filter_map(|shape| Growth::of(*shape, &graphs)).collect();
    Ok(GraphsReport { capacity: wanted.capacity, graphs, growth })
}

async fn once(world: &World, wanted: &Graphs, shape: GraphShape, nodes: usize) -> Result<GraphRun> {
    let start = world.new_run(Hands::Engine);
    let mut subject = world.start(&start, Workers::AtOnce).await?;
    let outcome = course(world, wanted, &mut subject, (shape, nodes), &start.run).await;
    world.finish(subject, outcome).await
}

async fn course(
    world: &World,
    wanted: &Graphs,
    subject: &mut Subject,
    (shape, nodes): (GraphShape, usize),
    run: &str,
) -> Result<GraphRun> {
    subject.engage(run, wanted.capacity).await?;
    // The first nodes of an engine pay for its connections, statements and caches, and wait until its workers
    // know the executor.
    if wanted.warmup > 0 {
        let prefix = format!("w-{run}-");
        let load = Load { shape, nodes: wanted.warmup, graphs: 1, prefix: &prefix };
        load.drive(world, subject, "warm-up").await?;
        load.verify(subject).await?;
    }
    let prefix = format!("m-{run}-");
    let load = Load { shape, nodes, graphs: wanted.in_one_run(nodes), prefix: &prefix };
    let (window, performed) = (Window::open(world, subject).await?, subject.executor()?.performed());
    let times = load.drive(world, subject, &format!("{shape} {nodes}")).await?;
    let spent = window.spent(world, subject, load.all_nodes()).await?;
    let performed = subject.executor()?.performed() - performed;
    load.verify(subject).await?;

    Ok(figures(load, &times, performed, spent, &subject.engine_roles()))
}

fn figures(load: Load<'_>, times: &[Times], performed: u64, spent: Spent, engine: &[String]) -> GraphRun {
    let (nodes, seconds) = (load.all_nodes(), total(times, |time| time.whole));
    // The CPU usage of an engine that was not started here is unknown.
    let cpu = |of: &dyn Fn(&str) -> bool| (!engine.is_empty()).then(|| spent.cpu_micros_per_event(of));
    GraphRun {
        graphs: load.graphs,
        nodes,
        seconds,
        create_seconds: total(times, |time| time.create),
        nodes_per_second: per_second(nodes, seconds),
        micros_per_node: seconds * 1e6 / as_f64(nodes.max(1)),
        engine_cpu_micros_per_node: cpu(&|role| engine.iter().any(|own| own == role)),
        cpu_micros_per_node: cpu(&|role| role != GENERATOR && role != EXECUTOR),
        performed_again: performed.saturating_sub(nodes as u64),
        cores_taken_by_others: spent.others_seconds.map(|others| others / seconds),
        database_bytes_per_node: spent.database_bytes_per_event,
        roles: spent.roles,
        batches: spent.batches,
    }
}

fn total(times: &[Times], of: fn(&Times) -> Duration) -> f64 {
    times.iter().map(|time| of(time).as_secs_f64()).sum()
}

/// Times from the request that creates a graph.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Until the create request was answered.
    create: Duration,
    /// Until the graph had ended.
    whole: Duration,
}

impl Load<'_> {
    fn all_nodes(self) -> usize {
        self.nodes * self.graphs
    }

    /// One graph after the other.
    async fn drive(self, world: &World, subject: &mut Subject, what: &str) -> Result<Vec<Times>> {
        let bar = world.plan.progress.bar(what, self.all_nodes());
        let label = subject.executor()?.label().to_owned();
        let mut times = Vec::with_capacity(self.graphs);
        for number in 0..self.graphs {
            let graph = format!("{}{number}", self.prefix);
            let request = self.shape.request(&graph, self.nodes, &label);
            let (before, began) = (subject.executor()?.performed(), Instant::now());
            subject.front().post("/v1/graphs", "application/json", request.as_bytes(), &[201]).await?;
            let create = began.elapsed();
            let show = |performed| bar.set((number * self.nodes) as u64 + performed);
            let ended = until_ended(subject, &graph, before, self.nodes as u64, show).await?;
            times.push(Times { create, whole: ended - began });
        }
        Ok(times)
    }

    async fn verify(self, subject: &mut Subject) -> Result<()> {
        let executor = subject.executor()?.name().to_owned();
        for number in 0..self.graphs {
            let graph = format!("{}{number}", self.prefix);
            graph::passed(subject, &graph, (self.shape, self.nodes), &executor).await?;
        }
        verify::nothing_left(subject).await
    }
}

#[derive(Debug, Deserialize)]
struct Standing {
    status: String,
}

/// Waits until a graph has ended with any status; `before` is the executor's counter at its start.
async fn until_ended(
    subject: &mut Subject,
    graph: &str,
    before: u64,
    nodes: u64,
    show: impl Fn(u64),
) -> Result<Instant> {
    let mut watch = Watch::new(Instant::now());
    let wanted = Counters { decided: nodes, attempted: nodes };
    loop {
        subject.alive()?;
        let performed = subject.executor()?.performed() - before;
        show(performed);
        let (now, seen) = (Instant::now(), Counters { decided: performed, attempted: performed });
        match watch.judge(Some(seen), Some(wanted), now) {
            // Reading the counter is free, and a graph of a thousand nodes is over soon.
            Next::LookAgain(_) => tokio::time::sleep(LOOK_EVERY).await,
            Next::AskTheStore => {
                let body = subject.front().get(&format!("/v1/executions/{graph}")).await?;
                let standing: Standing = serde_json::from_slice(&body).map_err(|error| {
                    BenchError::Wrong(format!("the graph {graph} cannot be read: {error}"))
                })?;
                if standing.status != "active" {
                    return Ok(Instant::now());
                }
                // A poll costs the engine time; polling takes at most half of the time.
                tokio::time::sleep(now.elapsed().max(LOOK_EVERY)).await;
            }
            Next::GiveUp => {
                return Err(BenchError::Wrong(format!(
                    "the graph {graph} does not end: {performed} of {nodes} nodes were performed, no progress"
                )));
            }
        }
    }
}
