//! When a node runs, is skipped or is filtered.

use millstream_model::id::Name;
use millstream_model::raw::RawJson;

use super::fixture::{GraphFixture, event, name};
use crate::graph::{NodePerformer, NodeStatus};
use crate::log::StateEntry;

#[test]
fn no_node_runs_before_begin() {
    let mut bench = GraphFixture::created("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    assert_eq!(bench.statuses(), "a PENDING, b PENDING");
    assert!(bench.last.actions.is_empty());
    bench.apply(&event(Name::begin(), RawJson::null()));
    assert_eq!(bench.statuses(), "a RUNNING, b PENDING");
    assert_eq!(bench.why("a"), "has no parents");
}

#[test]
fn graph_begins_once() {
    let bench = GraphFixture::of("{name: g, nodes: [{id: a}]}");
    let again = bench.rejected(&event(Name::begin(), RawJson::null()));
    assert_eq!(again, "the graph has begun already");
}

#[test]
fn node_runs_when_all_parents_passed() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [a, b]}]}");
    bench.passes("b");
    assert_eq!(bench.dispatched_names(), "");
    bench.passes("a");
    assert_eq!(bench.dispatched_names(), "c");
    assert_eq!(bench.why("c"), "parents a, b passed");
    assert_eq!(bench.last.transition.decision.entered, StateEntry::Stayed);
}

#[test]
fn dispatch_input_names_executor_requirements() {
    let mut bench = GraphFixture::of(
        "{name: g, options: {node: {timeout: 1m}}, nodes: [
           {id: a, agent: {role: writer, labels: [gpu]}},
           {id: b, options: {timeout: 2s}, graph: {name: inner, nodes: [{id: x}]}},
           {id: c, execution: {definition: order}}]}",
    );
    let [a, b, c] = &bench.dispatched()[..] else { panic!() };
    assert_eq!((a.role.as_str(), a.timeout_ms, a.work), ("writer", 60_000, NodePerformer::Execute));
    assert!(a.labels.contains(&name("gpu")));
    assert_eq!((b.timeout_ms, b.work), (2_000, NodePerformer::Graph));
    assert_eq!((c.attempt, c.not_before, c.work), (1, None, NodePerformer::Execution));
    assert_eq!(bench.last.actions[1].name, name("b"));
    bench.passes("a");
}

#[test]
fn failure_skips_all_descendants() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b, parents: [a]}, {id: c, parents: [b]}, {id: d}]}",
    );
    bench.ends("a", NodeStatus::Fail);
    assert_eq!(bench.statuses(), "a FAIL, b SKIPPED, c SKIPPED, d RUNNING");
    assert_eq!(bench.why("b"), "parent a is FAIL");
    assert_eq!(bench.why("c"), "parent b is SKIPPED");
}

#[test]
fn continuing_node_runs_after_failed_parent() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [a, b], on_failure: continue}]}",
    );
    bench.ends("a", NodeStatus::Fail);
    assert_eq!(bench.statuses(), "a FAIL, b RUNNING, c PENDING");
    bench.passes("b");
    assert_eq!(bench.statuses(), "a FAIL, b PASS, c RUNNING");
    assert_eq!(bench.why("c"), "continues although parent a did not pass");
}

#[test]
fn condition_opens_or_closes_edge() {
    let source = "{name: g, input: {least: 3}, nodes: [{id: my-node},
        {id: b, parents: [{node: my-node, if: 'results[\"my-node\"].score > input.least'}]},
        {id: c, parents: [{node: my-node, if: 'results[\"my-node\"].score <= input.least'}]}]}";
    let mut bench = GraphFixture::of(source);
    bench.gives("my-node", r#"{"score": 5}"#);
    assert_eq!(bench.statuses(), "b RUNNING, c FILTERED, my-node PASS");
    assert_eq!(bench.why("c"), "condition on my-node is false: results[\"my-node\"].score <= input.least");
}

#[test]
fn one_open_edge_runs_node() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [{node: a, if: 'results.a > 1'}, b]}]}",
    );
    bench.gives("a", "1").passes("b");
    assert_eq!(bench.statuses(), "a PASS, b PASS, c RUNNING");
}

#[test]
fn descendants_of_filtered_nodes_are_filtered() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b, parents: [{node: a, if: 'false'}]},
           {id: c, parents: [b]}, {id: d, parents: [b, a]}]}",
    );
    bench.passes("a");
    assert_eq!(bench.statuses(), "a PASS, b FILTERED, c FILTERED, d RUNNING");
    assert_eq!(bench.why("c"), "all parents are FILTERED");
}

#[test]
fn failing_condition_fails_its_node() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b, parents: [{node: a, if: 'results.a.score > 3'}]}]}",
    );
    bench.gives("a", "{}");
    assert_eq!(bench.statuses(), "a PASS, b TASK_ERROR");
    assert_eq!(bench.why("b"), "cannot evaluate the condition on a: there is no results.a.score");
}

#[test]
fn oversized_result_fails_mentioning_node() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b, parents: [{node: a, if: 'size(results.a) > 3'}]},
           {id: c, parents: [a]}]}",
    );
    bench.gives("a", &format!("\"{}\"", "x".repeat(64 * 1024)));
    assert_eq!(bench.statuses(), "a PASS, b TASK_ERROR, c RUNNING");
    assert!(bench.why("b").contains("exceeds 64 KiB"), "{}", bench.why("b"));
}

#[test]
fn only_mentioned_results_are_kept() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [{node: a, if: 'results.a > 3'}, b]}]}",
    );
    bench.gives("a", "4").gives("b", "5");
    let kept = |node: &str| bench.graph().nodes[node].kept.as_ref().map(RawJson::as_str);
    assert_eq!((kept("a"), kept("b")), (Some("4"), None));
}

#[test]
fn condition_may_test_missing_result() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b},
           {id: c, on_failure: continue, parents: [a, {node: b, if: '!has(results.a)'}]}]}",
    );
    bench.ends("a", NodeStatus::Fail).passes("b");
    assert_eq!(bench.statuses(), "a FAIL, b PASS, c RUNNING");
}

#[test]
fn parallelism_limit_runs_nodes_by_id() {
    let mut bench = GraphFixture::of(
        "{name: g, options: {max_parallel: 2}, nodes: [{id: d}, {id: c}, {id: b}, {id: e, parents: [b]}]}",
    );
    assert_eq!(bench.dispatched_names(), "b c");
    bench.passes("b");
    assert_eq!(bench.dispatched_names(), "d");
    bench.passes("c");
    assert_eq!(bench.dispatched_names(), "e");
    assert_eq!(bench.why("e"), "parent b passed");
}

#[test]
fn why_text_names_few_parents() {
    let roots: String = (0..1_000).map(|n| format!("{{id: n{n:03}}}, ")).collect();
    let parents: Vec<String> = (0..1_000).map(|n| format!("n{n:03}")).collect();
    let mut bench = GraphFixture::of(&format!(
        "{{name: g, nodes: [{roots}{{id: join, parents: [{}]}}]}}",
        parents.join(", ")
    ));
    for parent in &parents[..2] {
        bench.passes(parent);
    }
    assert_eq!(bench.graph().nodes["join"].waits_for, 998);
    let mut state = bench.state.clone();
    for parent in &parents[2..] {
        bench.state = state;
        let event = super::fixture::told(parent, &super::fixture::answer(NodeStatus::Pass, 1));
        let crate::log::EventOutcome::Applied(applied) =
            crate::graph_machine::step_graph(&bench.state, &event, bench.now)
        else {
            panic!()
        };
        state = crate::machine::evolve(Some(bench.state.clone()), &applied.transition);
    }
    bench.state = state;
    assert_eq!(bench.why("join"), "parents n000, n001, n002 and 997 more passed");
}
