//! Fan-outs: one instance per item of a list.

use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;

use super::fixture::{GraphFixture, name};
use crate::graph::{NodePerformer, NodeStatus};

const EACH: &str = "{name: g, nodes: [{id: list},
    {id: each, parents: [list], fan_out: {over: results.list.items}, agent: {role: writer}},
    {id: after, parents: [each]}]}";

#[test]
fn fan_out_creates_node_per_item() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": [7, 1.50]}"#);
    assert_eq!(bench.statuses(), "after PENDING, each RUNNING, each.0 RUNNING, each.1 RUNNING, list PASS");
    assert_eq!(bench.graph().nodes["each.1"].of, Some((name("each"), RawJson::parse("1.50").unwrap())));
    assert_eq!((bench.dispatched_names().as_str(), bench.why("each.1")), ("each.0 each.1", "item 1 of each"));
    assert_eq!(bench.dispatched()[1].role, "writer");
    assert_eq!((bench.graph().revision, bench.change().expanded[0].revision), (2, 2));
}

#[test]
fn fan_out_passes_with_all_items() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": [1, 2]}"#).passes("each.1");
    assert_eq!(bench.graph().nodes["each"].status, NodeStatus::Running);
    bench.passes("each.0");
    assert_eq!((bench.dispatched_names().as_str(), bench.why("each")), ("after", "all 2 items passed"));
}

#[test]
fn failed_item_fails_its_fan_out() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": [1, 2]}"#).ends("each.0", NodeStatus::Fail);
    assert_eq!(bench.graph().nodes["each"].status, NodeStatus::Running);
    bench.passes("each.1");
    assert_eq!(bench.statuses(), "after SKIPPED, each FAIL, each.0 FAIL, each.1 PASS, list PASS");
    assert_eq!(bench.why("each"), "1 of 2 items did not pass");
    assert_eq!(bench.state.phase, ExecutionPhase::Failed);
}

#[test]
fn continuing_fan_out_passes_despite_failures() {
    let mut bench = GraphFixture::of(
        "{name: g, input: {items: [1]}, nodes: [
           {id: each, fan_out: {over: input.items}, on_failure: continue}]}",
    );
    bench.ends("each.0", NodeStatus::Fail);
    assert_eq!(
        (bench.statuses().as_str(), bench.state.phase),
        ("each PASS, each.0 FAIL", ExecutionPhase::Completed)
    );
}

#[test]
fn empty_fan_out_passes_at_once() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": []}"#);
    assert_eq!(bench.statuses(), "after RUNNING, each PASS, list PASS");
    assert_eq!(bench.graph().revision, 2);
}

#[test]
fn fan_out_requires_a_list() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": {"a": 1}}"#);
    assert_eq!(bench.statuses(), "after SKIPPED, each TASK_ERROR, list PASS");
    assert_eq!(bench.why("each"), "cannot evaluate `over`: a list is needed, not a map");
}

#[test]
fn oversized_fan_out_fails_its_node() {
    let items = vec!["1"; 20_000].join(",");
    let bench = GraphFixture::of(&format!(
        "{{name: g, input: {{items: [{items}]}}, nodes: [{{id: each, fan_out: {{over: input.items}}}}]}}"
    ));
    assert_eq!(bench.why("each"), "20000 items make it 20001 nodes, at most 20000 are allowed");
    assert_eq!((bench.graph().nodes.len(), bench.state.phase), (1, ExecutionPhase::Failed));
}

#[test]
fn only_instances_count_towards_parallelism() {
    let mut bench = GraphFixture::of(
        "{name: g, options: {max_parallel: 1}, input: {items: [1, 2]}, nodes: [
           {id: each, fan_out: {over: input.items}}, {id: z}]}",
    );
    assert_eq!(bench.dispatched_names(), "each.0");
    bench.passes("each.0");
    assert_eq!(bench.dispatched_names(), "each.1");
    bench.passes("each.1");
    assert_eq!((bench.dispatched_names().as_str(), bench.graph().running_fan_outs), ("z", 0));
}

#[test]
fn fan_out_instance_is_retried() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": [1]}"#).ends("each.0", NodeStatus::Crash);
    assert_eq!((bench.dispatched()[0].attempt, bench.why("each.0")), (2, "attempt 2 of 3 after CRASH"));
    assert_eq!(bench.graph().nodes["each"].instances.unwrap().open, 1);
}

#[test]
fn fan_out_result_counts_items() {
    let mut bench = GraphFixture::of(
        "{name: g, input: {items: [1, 2]}, nodes: [{id: each, fan_out: {over: input.items}},
           {id: b, parents: [{node: each, if: results.each.count == 2}]}]}",
    );
    bench.passes("each.0").passes("each.1");
    assert_eq!(bench.dispatched_names(), "b");
}

#[test]
fn fan_out_may_hold_graphs() {
    let bench = GraphFixture::of(
        "{name: g, input: {items: [1]}, nodes: [
           {id: each, fan_out: {over: input.items}, graph: {name: i, nodes: [{id: x}]}}]}",
    );
    assert_eq!(bench.dispatched()[0].work, NodePerformer::Graph);
}

#[test]
fn fan_out_accepts_no_outcome() {
    let mut bench = GraphFixture::of(EACH);
    bench.gives("list", r#"{"items": [1]}"#);
    let event = super::fixture::told("each", &super::fixture::answer(NodeStatus::Pass, 0));
    assert_eq!(bench.rejected(&event), "each is a fan-out: its items are performed, not itself");
}
