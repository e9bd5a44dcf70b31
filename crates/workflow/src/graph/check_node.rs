//! Validation of a single node, independent of the rest of its graph.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_expr::{CelProgram, ExprBudget, ExprVocabulary, PathRoot, PathStep};
use millstream_model::duration;

use super::check::check_graph;
use super::fan_out;
use super::limits::{MAX_ATTEMPTS, MAX_DEPTH, MAX_NAME_CHARS, MAX_NODE_BYTES};
use super::mention::find_mentions;
use super::problems::GraphProblems;
use super::spec::{NodeAgent, NodeOptions, NodeRetry, NodeSpec, NodeTask, SubExecution};

/// `depth` is the number of graphs around the node.
pub(super) fn check_node(
    node: &NodeSpec,
    path: &str,
    depth: usize,
    found: &mut GraphProblems,
    budget: &ExprBudget<'_>,
) {
    if node.id.is_reserved() {
        found.add_problem(
            format!("{path}.id"),
            "ids that begin with \"millstream.\" are reserved for the engine",
        );
    }
    let parents = check_parents(node, path, found, budget);
    check_agent(&node.agent, path, found);
    check_task(&node.task, &parents, path, found);
    check_options(&node.options, &format!("{path}.options"), found);
    let bytes = node_text_bytes(node);
    if bytes > MAX_NODE_BYTES {
        let limit = MAX_NODE_BYTES / 1024;
        found.add_problem(path, format!("is {} KiB large, at most {limit} KiB are allowed", bytes / 1024));
    }
    if let Some(fan_out) = &node.fan_out {
        check_expression(&fan_out.over, &parents, &format!("{path}.fan_out.over"), found, budget);
        if node.id.as_str().len() > fan_out::MAX_ID {
            let message = format!("the id of a fan-out may have {} characters", fan_out::MAX_ID);
            found.add_problem(format!("{path}.id"), message);
        }
    }
    if node.graph.is_some() && node.execution.is_some() {
        found.add_problem(format!("{path}.execution"), "a node is a graph or an execution, not both");
    }
    if let Some(SubExecution { input, .. }) = &node.execution
        && !is_object_or_null(input.as_str())
    {
        found.add_problem(format!("{path}.execution.input"), "must be an object");
    }
    match &node.graph {
        Some(_) if depth >= MAX_DEPTH => {
            found.add_problem(format!("{path}.graph"), format!("graphs nest {MAX_DEPTH} deep at most"));
        }
        Some(graph) => check_graph(graph, &format!("{path}.graph"), depth + 1, found, budget),
        None => {}
    }
}

pub(super) fn is_object_or_null(json: &str) -> bool {
    let json = json.trim_start();
    json.starts_with('{') || json.starts_with("null")
}

pub(super) fn check_name(name: &str, path: &str, found: &mut GraphProblems) {
    if name.chars().count() > MAX_NAME_CHARS {
        found.add_problem(path, format!("is longer than {MAX_NAME_CHARS} characters"));
    }
}

fn check_parents<'a>(
    node: &'a NodeSpec,
    path: &str,
    found: &mut GraphProblems,
    budget: &ExprBudget<'_>,
) -> BTreeSet<&'a str> {
    let mut parents = BTreeSet::new();
    for (at, edge) in node.parents.iter().enumerate() {
        if edge.from == node.id {
            found.add_problem(format!("{path}.parents[{at}]"), "a node cannot be its own parent");
        }
        if !parents.insert(edge.from.as_str()) {
            found.add_problem(
                format!("{path}.parents[{at}]"),
                format!("{:?} is named twice", edge.from.as_str()),
            );
        }
    }
    for (at, edge) in node.parents.iter().enumerate() {
        if let Some(condition) = &edge.condition {
            check_expression(condition, &parents, &format!("{path}.parents[{at}].if"), found, budget);
        }
    }
    parents
}

/// Compilation is charged to the budget; it stops at the pattern limit of the graph.
fn check_expression(
    source: &str,
    parents: &BTreeSet<&str>,
    path: &str,
    found: &mut GraphProblems,
    budget: &ExprBudget<'_>,
) {
    if found.is_too_large() || found.is_full() {
        return;
    }
    let program = match CelProgram::compile_within(source, ExprVocabulary::Graph { parents }, budget) {
        Ok(program) => program,
        Err(messages) => {
            for message in messages {
                found.add_problem(path, message);
            }
            return;
        }
    };
    found.weigh_patterns(path, program.pattern_weight());
    let plain: BTreeSet<&str> = find_mentions(source).collect();
    for (root, steps) in program.references() {
        if let (PathRoot::Results, Some(PathStep::Field(name))) = (root, steps.first())
            && !plain.contains(name.as_str())
        {
            found.add_problem(path, format!("write the result of {name:?} as results[{name:?}]"));
        }
    }
}

fn check_agent(agent: &NodeAgent, path: &str, found: &mut GraphProblems) {
    check_name(&agent.kind, &format!("{path}.agent.type"), found);
    check_name(&agent.model, &format!("{path}.agent.model"), found);
    check_name(&agent.role, &format!("{path}.agent.role"), found);
}

fn check_task(task: &NodeTask, parents: &BTreeSet<&str>, path: &str, found: &mut GraphProblems) {
    for (name, node) in &task.dependencies {
        let path = format!("{path}.task.dependencies.{name}");
        check_name(name, &path, found);
        if !parents.contains(node.as_str()) {
            found.add_problem(path, format!("{:?} is not a parent of this node", node.as_str()));
        }
    }
}

pub(super) fn check_options(options: &NodeOptions, path: &str, found: &mut GraphProblems) {
    if let Some(timeout) = options.timeout {
        check_length(timeout, &format!("{path}.timeout"), found);
    }
    let Some(NodeRetry { attempts, backoff, max, on }) = &options.retry else { return };
    if *attempts == 0 || *attempts > MAX_ATTEMPTS {
        found.add_problem(format!("{path}.retry.attempts"), format!("must be from 1 to {MAX_ATTEMPTS}"));
    }
    check_length(*backoff, &format!("{path}.retry.backoff"), found);
    check_length(*max, &format!("{path}.retry.max"), found);
    for status in on.iter().filter(|status| !status.is_failure()) {
        found.add_problem(format!("{path}.retry.on"), format!("{status} is not a failure"));
    }
}

/// The log stores durations in whole milliseconds greater than zero.
pub(super) fn check_length(length: Duration, path: &str, found: &mut GraphProblems) {
    if length.is_zero() || !length.subsec_nanos().is_multiple_of(1_000_000) {
        found.add_problem(path, "must be a whole number of milliseconds, and not zero");
    } else if length > duration::MAX {
        found.add_problem(path, "is longer than 100 years");
    }
}

/// Size of a node's own texts. Parent ids are limited by number, a nested graph by its own limits.
pub(crate) fn node_text_bytes(node: &NodeSpec) -> usize {
    let NodeSpec { id: _, parents, agent, task, options: _, on_failure: _, is_final: _, .. } = node;
    let conditions = parents.iter().filter_map(|edge| edge.condition.as_deref()).map(str::len);
    let labels = agent.labels.iter().map(|label| label.as_str().len());
    let dependencies = task.dependencies.iter().map(|(name, node)| name.len() + node.as_str().len());
    let subtasks = task.subtasks.iter().map(String::len);
    agent.kind.len()
        + agent.model.len()
        + agent.role.len()
        + task.goal.len()
        + conditions.sum::<usize>()
        + labels.sum::<usize>()
        + dependencies.sum::<usize>()
        + subtasks.sum::<usize>()
        + node.fan_out.as_ref().map_or(0, |fan_out| fan_out.over.len())
        + node.execution.as_ref().map_or(0, |execution| execution.input.len())
}
