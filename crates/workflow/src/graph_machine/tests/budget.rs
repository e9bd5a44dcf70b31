//! All conditions and lists of a decision share one budget.

use super::fixture::GraphFixture;

/// A graph whose node `a` has `count` children, each behind a condition that scans a long list.
fn conditions(count: usize) -> GraphFixture {
    let node = |n: usize| format!("{{id: n{n}, parents: [{{node: a, if: 'input.l.all(x, x > 0)'}}]}}");
    let nodes: Vec<String> = (0..count).map(node).collect();
    let input = format!("{{l: [{}1]}}", "1,".repeat(20_000));
    GraphFixture::of(&format!("{{name: g, input: {input}, nodes: [{{id: a}}, {}]}}", nodes.join(", ")))
}

#[test]
fn conditions_share_one_budget() {
    let mut few = conditions(2);
    few.passes("a");
    assert_eq!(few.statuses(), "a PASS, n0 RUNNING, n1 RUNNING");
    let mut many = conditions(100);
    many.passes("a");
    let statuses = many.statuses();
    assert!(statuses.contains("n0 RUNNING") && statuses.contains("n99 TASK_ERROR"), "{statuses}");
    assert!(many.why("n99").contains("too much work"), "{}", many.why("n99"));
}

#[test]
fn oversized_list_fails_its_fan_out() {
    let input = format!("{{s: {}, l: [{}1]}}", "x".repeat(50_000), "1,".repeat(1_000));
    let bench = GraphFixture::of(&format!(
        "{{name: g, input: {input}, nodes: [{{id: each, fan_out: {{over: \"input.l.map(x, input.s + 'y')\"}}}}]}}"
    ));
    assert_eq!(bench.statuses(), "each TASK_ERROR");
    assert!(bench.why("each").contains("need too much memory"), "{}", bench.why("each"));
}

#[test]
fn fan_out_items_charge_the_budget() {
    let node = |n: usize| format!("{{id: n{n}, parents: [a], fan_out: {{over: input.l}}}}");
    let nodes: Vec<String> = (0..5).map(node).collect();
    let input = format!("{{l: [{}1]}}", "1,".repeat(60_000));
    let source = format!("{{name: g, input: {input}, nodes: [{{id: a}}, {}]}}", nodes.join(", "));
    let mut bench = GraphFixture::of(&source);
    bench.passes("a");
    // Each list has more items than a graph may have nodes. The last one is not even read.
    assert!(!bench.why("n0").contains("too much memory"), "{}", bench.why("n0"));
    assert!(bench.why("n4").contains("need too much memory"), "{}", bench.why("n4"));
}
