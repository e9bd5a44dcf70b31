//! Graph benchmark: from the request that creates a graph until it has ended.
//!
//! The executor counts performed nodes in this process, so waiting costs the engine nothing until the last
//! one is done. Then the engine is polled until the graph has ended.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::window::{MeasuredWindow, WindowUsage, per_second};
use crate::completion::{CompletionStep, CompletionWatch, WorkCounters};
use crate::error::{BenchError, BenchResult};
use crate::graph::{
    self, EXECUTOR, GraphBench, GraphReport, GraphRun, GraphShape, GraphsReport, NodeCostGrowth,
};
use crate::target::{EngineUnderTest, WorkerStart};
use crate::usage::{GENERATOR, as_f64};
use crate::verify;
use crate::workload::ActionPerformers;
use crate::world::BenchWorld;

/// Interval between two readings of the executor's counter, and minimum interval between two polls of the
/// engine.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The graphs of one run.
#[derive(Debug, Clone, Copy)]
struct GraphLoad<'a> {
    shape: GraphShape,
    nodes: usize,
    graphs: usize,
    /// Graphs are `{prefix}{number}`.
    prefix: &'a str,
}

/// Runs in rounds, each shape and size once, so that compared runs meet the same state of the machine.
pub(crate) async fn measure_graphs(world: &BenchWorld, wanted: &GraphBench) -> BenchResult<GraphsReport> {
    let kinds = wanted.shapes.iter().flat_map(|shape| wanted.nodes.iter().map(|nodes| (*shape, *nodes)));
    let mut all: Vec<(GraphShape, usize, Vec<GraphRun>)> =
        kinds.map(|(shape, nodes)| (shape, nodes, Vec::new())).collect();
    for _ in 0..world.plan.runs {
        for (shape, nodes, runs) in &mut all {
            runs.push(measure_shape(world, wanted, *shape, *nodes).await?);
        }
    }
    let graphs: Vec<GraphReport> = all
        .into_iter()
        .filter_map(|(shape, nodes, runs)| GraphReport::from_runs(shape, nodes, runs))
        .collect();
    let growth =
        wanted.shapes.iter().filter_map(|shape| NodeCostGrowth::between_sizes(*shape, &graphs)).collect();
    Ok(GraphsReport { capacity: wanted.capacity, graphs, growth })
}

async fn measure_shape(
    world: &BenchWorld,
    wanted: &GraphBench,
    shape: GraphShape,
    nodes: usize,
) -> BenchResult<GraphRun> {
    let start = world.new_run(ActionPerformers::Engine);
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = run_graphs(world, wanted, &mut subject, (shape, nodes), &start.run).await;
    world.finish_run(subject, outcome).await
}

async fn run_graphs(
    world: &BenchWorld,
    wanted: &GraphBench,
    subject: &mut EngineUnderTest,
    (shape, nodes): (GraphShape, usize),
    run: &str,
) -> BenchResult<GraphRun> {
    subject.start_executor(run, wanted.capacity).await?;
    // The first nodes of an engine pay for its connections, statements and caches, and wait until its workers
    // know the executor.
    if wanted.warmup > 0 {
        let prefix = format!("w-{run}-");
        let load = GraphLoad { shape, nodes: wanted.warmup, graphs: 1, prefix: &prefix };
        load.drive_graphs(world, subject, "warm-up").await?;
        load.verify_graphs(subject).await?;
    }
    let prefix = format!("m-{run}-");
    let load = GraphLoad { shape, nodes, graphs: wanted.in_one_run(nodes), prefix: &prefix };
    let (window, performed) =
        (MeasuredWindow::open_window(world, subject).await?, subject.graph_executor()?.performed_nodes());
    let times = load.drive_graphs(world, subject, &format!("{shape} {nodes}")).await?;
    let spent = window.usage_since_open(world, subject, load.all_nodes()).await?;
    let performed = subject.graph_executor()?.performed_nodes() - performed;
    load.verify_graphs(subject).await?;

    Ok(run_figures(load, &times, performed, spent, &subject.engine_roles()))
}

fn run_figures(
    load: GraphLoad<'_>,
    times: &[GraphTimes],
    performed: u64,
    spent: WindowUsage,
    engine: &[String],
) -> GraphRun {
    let (nodes, seconds) = (load.all_nodes(), total_time(times, |time| time.whole));
    // The CPU usage of an engine that was not started here is unknown.
    let cpu = |of: &dyn Fn(&str) -> bool| (!engine.is_empty()).then(|| spent.cpu_micros_per_event(of));
    GraphRun {
        graphs: load.graphs,
        nodes,
        seconds,
        create_seconds: total_time(times, |time| time.create),
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

fn total_time(times: &[GraphTimes], of: fn(&GraphTimes) -> Duration) -> f64 {
    times.iter().map(|time| of(time).as_secs_f64()).sum()
}

/// Times from the request that creates a graph.
#[derive(Debug, Clone, Copy)]
struct GraphTimes {
    /// Until the create request was answered.
    create: Duration,
    /// Until the graph had ended.
    whole: Duration,
}

impl GraphLoad<'_> {
    fn all_nodes(self) -> usize {
        self.nodes * self.graphs
    }

    /// One graph after the other.
    async fn drive_graphs(
        self,
        world: &BenchWorld,
        subject: &mut EngineUnderTest,
        what: &str,
    ) -> BenchResult<Vec<GraphTimes>> {
        let bar = world.plan.progress.start_bar(what, self.all_nodes());
        let label = subject.graph_executor()?.label().to_owned();
        let mut times = Vec::with_capacity(self.graphs);
        for number in 0..self.graphs {
            let graph = format!("{}{number}", self.prefix);
            let request = self.shape.create_request(&graph, self.nodes, &label);
            let (before, began) = (subject.graph_executor()?.performed_nodes(), Instant::now());
            subject
                .front_connection()
                .post("/v1/graphs", "application/json", request.as_bytes(), &[201])
                .await?;
            let create = began.elapsed();
            let show = |performed| bar.set_position((number * self.nodes) as u64 + performed);
            let ended = until_ended(subject, &graph, before, self.nodes as u64, show).await?;
            times.push(GraphTimes { create, whole: ended - began });
        }
        Ok(times)
    }

    async fn verify_graphs(self, subject: &mut EngineUnderTest) -> BenchResult<()> {
        let executor = subject.graph_executor()?.name().to_owned();
        for number in 0..self.graphs {
            let graph = format!("{}{number}", self.prefix);
            graph::verify_graph(subject, &graph, (self.shape, self.nodes), &executor).await?;
        }
        verify::verify_nothing_left(subject).await
    }
}

#[derive(Debug, Deserialize)]
struct GraphStatusReply {
    status: String,
}

/// Waits until a graph has ended with any status; `before` is the executor's counter at its start.
async fn until_ended(
    subject: &mut EngineUnderTest,
    graph: &str,
    before: u64,
    nodes: u64,
    show: impl Fn(u64),
) -> BenchResult<Instant> {
    let mut watch = CompletionWatch::new(Instant::now());
    let wanted = WorkCounters { decided: nodes, attempted: nodes };
    loop {
        subject.check_alive()?;
        let performed = subject.graph_executor()?.performed_nodes() - before;
        show(performed);
        let (now, seen) = (Instant::now(), WorkCounters { decided: performed, attempted: performed });
        match watch.next_step(Some(seen), Some(wanted), now) {
            // Reading the counter is free, and a graph of a thousand nodes is over soon.
            CompletionStep::LookAgain(_) => tokio::time::sleep(LOOK_EVERY).await,
            CompletionStep::AskTheStore => {
                let body = subject.front_connection().get(&format!("/v1/executions/{graph}")).await?;
                let standing: GraphStatusReply = serde_json::from_slice(&body).map_err(|error| {
                    BenchError::Wrong(format!("the graph {graph} cannot be read: {error}"))
                })?;
                if standing.status != "active" {
                    return Ok(Instant::now());
                }
                // A poll costs the engine time; polling takes at most half of the time.
                tokio::time::sleep(now.elapsed().max(LOOK_EVERY)).await;
            }
            CompletionStep::GiveUp => {
                return Err(BenchError::Wrong(format!(
                    "the graph {graph} does not end: {performed} of {nodes} nodes were performed, no progress"
                )));
            }
        }
    }
}
