//! Results of the graph benchmark: nodes per second, and the cost of a node in small and in large graphs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::shape::GraphShape;
use crate::batches::Batches;
use crate::report::Spread;
use crate::usage::RoleUsage;

#[derive(Debug, Clone, Serialize)]
pub struct GraphsReport {
    /// Capacity that the executor announced.
    pub capacity: u32,
    pub graphs: Vec<GraphReport>,
    /// One per shape that has more than one size.
    pub growth: Vec<Growth>,
}

/// All runs of one shape and size; the median one in full.
#[derive(Debug, Clone, Serialize)]
pub struct GraphReport {
    pub shape: GraphShape,
    pub nodes: usize,
    pub edges: usize,
    pub nodes_per_second: Spread,
    pub micros_per_node: Spread,
    pub engine_cpu_micros_per_node: Option<Spread>,
    pub cpu_micros_per_node: Option<Spread>,
    pub median: GraphRun,
    pub runs: Vec<GraphRun>,
}

/// Graphs of one shape and size, one after the other on a separate engine.
#[derive(Debug, Clone, Serialize)]
pub struct GraphRun {
    pub graphs: usize,
    /// Nodes of all graphs together.
    pub nodes: usize,
    /// Sum of the times from the create request to the end of each graph.
    pub seconds: f64,
    /// The part of it until the create requests were answered.
    pub create_seconds: f64,
    pub nodes_per_second: f64,
    pub micros_per_node: f64,
    /// CPU of the engine's own processes; unknown for an engine that was not started here.
    pub engine_cpu_micros_per_node: Option<f64>,
    /// The same including PostgreSQL and Redis.
    pub cpu_micros_per_node: Option<f64>,
    /// Here, an event is a node.
    pub roles: Vec<RoleUsage>,
    /// Repeated nodes: a node is sent at least once.
    pub performed_again: u64,
    /// CPU cores used by other programs: neither the engine, nor its services, nor this process.
    pub cores_taken_by_others: Option<f64>,
    pub database_bytes_per_node: Option<f64>,
    pub batches: BTreeMap<String, Batches>,
}

/// Cost of a node of the largest graph relative to one of the smallest: runs of the same round.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    pub shape: GraphShape,
    pub least_nodes: usize,
    pub most_nodes: usize,
    pub time: Spread,
    pub engine_cpu: Option<Spread>,
    pub cpu: Option<Spread>,
}

impl GraphReport {
    /// `None` without runs. The median run by nodes per second (of an even number, the lower one).
    pub(crate) fn of(shape: GraphShape, nodes: usize, runs: Vec<GraphRun>) -> Option<Self> {
        let mut order: Vec<&GraphRun> = runs.iter().collect();
        order.sort_by(|left, right| left.nodes_per_second.total_cmp(&right.nodes_per_second));
        let median = (*order.get(order.len().checked_sub(1)? / 2)?).clone();
        let known = |of: fn(&GraphRun) -> Option<f64>| Spread::of(runs.iter().filter_map(of));
        Some(Self {
            shape,
            nodes,
            edges: shape.edges(nodes),
            nodes_per_second: Spread::of(runs.iter().map(|run| run.nodes_per_second))?,
            micros_per_node: Spread::of(runs.iter().map(|run| run.micros_per_node))?,
            engine_cpu_micros_per_node: known(|run| run.engine_cpu_micros_per_node),
            cpu_micros_per_node: known(|run| run.cpu_micros_per_node),
            median,
            runs,
        })
    }
}

impl Growth {
    /// `None` unless this shape was run in two sizes.
    pub(crate) fn of(shape: GraphShape, graphs: &[GraphReport]) -> Option<Self> {
        let of_shape = || graphs.iter().filter(|graph| graph.shape == shape);
        let least = of_shape().min_by_key(|graph| graph.nodes)?;
        let most = of_shape().max_by_key(|graph| graph.nodes)?;
        if least.nodes == most.nodes {
            return None;
        }
        let rounds = || most.runs.iter().zip(&least.runs);
        let known = |of: fn(&GraphRun) -> Option<f64>| {
            Spread::of(rounds().filter_map(|(most, least)| Some(of(most)? / of(least)?)))
        };
        Some(Self {
            shape,
            least_nodes: least.nodes,
            most_nodes: most.nodes,
            time: Spread::of(rounds().map(|(most, least)| most.micros_per_node / least.micros_per_node))?,
            engine_cpu: known(|run| run.engine_cpu_micros_per_node),
            cpu: known(|run| run.cpu_micros_per_node),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(micros_per_node: f64, cpu: Option<f64>) -> GraphRun {
        GraphRun {
            graphs: 1,
            nodes: 1,
            seconds: micros_per_node / 1e6,
            create_seconds: 0.0,
            nodes_per_second: 1e6 / micros_per_node,
            micros_per_node,
            engine_cpu_micros_per_node: cpu,
            cpu_micros_per_node: cpu.map(|cpu| cpu * 2.0),
            roles: Vec::new(),
            performed_again: 0,
            cores_taken_by_others: None,
            database_bytes_per_node: None,
            batches: BTreeMap::new(),
        }
    }

    fn report(nodes: usize, runs: &[(f64, Option<f64>)]) -> GraphReport {
        let runs = runs.iter().map(|(micros, cpu)| run(*micros, *cpu)).collect();
        GraphReport::of(GraphShape::Flat, nodes, runs).unwrap()
    }

    #[test]
    fn growth_is_of_runs_of_the_same_round() {
        let small = report(1_000, &[(100.0, Some(10.0)), (200.0, Some(40.0)), (400.0, None)]);
        let large = report(10_000, &[(150.0, Some(20.0)), (200.0, Some(60.0)), (400.0, Some(1.0))]);
        let middle = report(3_000, &[(1.0, None); 3]);
        let growth = Growth::of(GraphShape::Flat, &[large, middle, small]).unwrap();
        assert_eq!((growth.least_nodes, growth.most_nodes), (1_000, 10_000));
        assert_eq!((growth.time.least, growth.time.median, growth.time.most), (1.0, 1.0, 1.5));
        let cpu = growth.cpu.unwrap();
        assert_eq!((cpu.least, cpu.most), (1.5, 2.0), "the round without a figure does not count");
    }

    #[test]
    fn one_size_does_not_grow_and_what_is_not_known_is_not_told() {
        let one = report(1_000, &[(100.0, None), (300.0, None), (200.0, None)]);
        assert_eq!(one.median.micros_per_node, 200.0);
        assert!(one.cpu_micros_per_node.is_none() && one.engine_cpu_micros_per_node.is_none());
        assert!(Growth::of(GraphShape::Flat, std::slice::from_ref(&one)).is_none());
        assert!(Growth::of(GraphShape::Levels, &[one]).is_none());
        assert!(GraphReport::of(GraphShape::Flat, 10, Vec::new()).is_none());
    }
}
