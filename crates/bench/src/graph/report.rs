//! Results of the graph benchmark: nodes per second, and the cost of a node in small and in large graphs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::shape::GraphShape;
use crate::batches::BatchStatistics;
use crate::report::FigureSpread;
use crate::usage::RoleUsage;

#[derive(Debug, Clone, Serialize)]
pub struct GraphsReport {
    /// Capacity that the executor announced.
    pub capacity: u32,
    pub graphs: Vec<GraphReport>,
    /// One per shape that has more than one size.
    pub growth: Vec<NodeCostGrowth>,
}

/// All runs of one shape and size; the median one in full.
#[derive(Debug, Clone, Serialize)]
pub struct GraphReport {
    pub shape: GraphShape,
    pub nodes: usize,
    pub edges: usize,
    pub nodes_per_second: FigureSpread,
    pub micros_per_node: FigureSpread,
    pub engine_cpu_micros_per_node: Option<FigureSpread>,
    pub cpu_micros_per_node: Option<FigureSpread>,
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
    pub batches: BTreeMap<String, BatchStatistics>,
}

/// Cost of a node of the largest graph relative to one of the smallest: runs of the same round.
#[derive(Debug, Clone, Serialize)]
pub struct NodeCostGrowth {
    pub shape: GraphShape,
    pub least_nodes: usize,
    pub most_nodes: usize,
    pub time: FigureSpread,
    pub engine_cpu: Option<FigureSpread>,
    pub cpu: Option<FigureSpread>,
}

impl GraphReport {
    /// `None` without runs. The median run by nodes per second (of an even number, the lower one).
    pub(crate) fn from_runs(shape: GraphShape, nodes: usize, runs: Vec<GraphRun>) -> Option<Self> {
        let mut order: Vec<&GraphRun> = runs.iter().collect();
        order.sort_by(|left, right| left.nodes_per_second.total_cmp(&right.nodes_per_second));
        let median = (*order.get(order.len().checked_sub(1)? / 2)?).clone();
        let known = |of: fn(&GraphRun) -> Option<f64>| FigureSpread::from_values(runs.iter().filter_map(of));
        Some(Self {
            shape,
            nodes,
            edges: shape.edge_count(nodes),
            nodes_per_second: FigureSpread::from_values(runs.iter().map(|run| run.nodes_per_second))?,
            micros_per_node: FigureSpread::from_values(runs.iter().map(|run| run.micros_per_node))?,
            engine_cpu_micros_per_node: known(|run| run.engine_cpu_micros_per_node),
            cpu_micros_per_node: known(|run| run.cpu_micros_per_node),
            median,
            runs,
        })
    }
}

impl NodeCostGrowth {
    /// `None` unless this shape was run in two sizes.
    pub(crate) fn between_sizes(shape: GraphShape, graphs: &[GraphReport]) -> Option<Self> {
        let of_shape = || graphs.iter().filter(|graph| graph.shape == shape);
        let least = of_shape().min_by_key(|graph| graph.nodes)?;
        let most = of_shape().max_by_key(|graph| graph.nodes)?;
        if least.nodes == most.nodes {
            return None;
        }
        let rounds = || most.runs.iter().zip(&least.runs);
        let known = |of: fn(&GraphRun) -> Option<f64>| {
            FigureSpread::from_values(rounds().filter_map(|(most, least)| Some(of(most)? / of(least)?)))
        };
        Some(Self {
            shape,
            least_nodes: least.nodes,
            most_nodes: most.nodes,
            time: FigureSpread::from_values(
                rounds().map(|(most, least)| most.micros_per_node / least.micros_per_node),
            )?,
            engine_cpu: known(|run| run.engine_cpu_micros_per_node),
            cpu: known(|run| run.cpu_micros_per_node),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_run(micros_per_node: f64, cpu: Option<f64>) -> GraphRun {
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

    fn sample_report(nodes: usize, runs: &[(f64, Option<f64>)]) -> GraphReport {
        let runs = runs.iter().map(|(micros, cpu)| sample_run(*micros, *cpu)).collect();
        GraphReport::from_runs(GraphShape::Flat, nodes, runs).unwrap()
    }

    #[test]
    fn node_cost_growth_pairs_rounds() {
        let small = sample_report(1_000, &[(100.0, Some(10.0)), (200.0, Some(40.0)), (400.0, None)]);
        let large = sample_report(10_000, &[(150.0, Some(20.0)), (200.0, Some(60.0)), (400.0, Some(1.0))]);
        let middle = sample_report(3_000, &[(1.0, None); 3]);
        let growth = NodeCostGrowth::between_sizes(GraphShape::Flat, &[large, middle, small]).unwrap();
        assert_eq!((growth.least_nodes, growth.most_nodes), (1_000, 10_000));
        assert_eq!((growth.time.least, growth.time.median, growth.time.most), (1.0, 1.0, 1.5));
        let cpu = growth.cpu.unwrap();
        assert_eq!((cpu.least, cpu.most), (1.5, 2.0), "the round without a figure does not count");
    }

    #[test]
    fn single_size_has_no_growth() {
        let one = sample_report(1_000, &[(100.0, None), (300.0, None), (200.0, None)]);
        assert_eq!(one.median.micros_per_node, 200.0);
        assert!(one.cpu_micros_per_node.is_none() && one.engine_cpu_micros_per_node.is_none());
        assert!(NodeCostGrowth::between_sizes(GraphShape::Flat, std::slice::from_ref(&one)).is_none());
        assert!(NodeCostGrowth::between_sizes(GraphShape::Levels, &[one]).is_none());
        assert!(GraphReport::from_runs(GraphShape::Flat, 10, Vec::new()).is_none());
    }
}
