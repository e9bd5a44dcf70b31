//! Edits: applied as a whole or not at all, and only to `PENDING` nodes.

use millstream_expr::{BudgetEnd, ExprBudget, STEP_UNITS};
use millstream_model::id::Name;
use millstream_model::raw::RawJson;

use super::fixture::{GraphFixture, answer, event, json, name, node, told};
use crate::graph::{ExecutorAnswer, GraphEdit, NodeEdit, NodeStatus, build_patch};
use crate::graph_machine::is_revision_conflict;

const LINE: &str = "{name: g, nodes: [{id: a}, {id: b, parents: [a]}, {id: c, parents: [b]}]}";

fn insert(source: &str) -> NodeEdit {
    NodeEdit::Insert(node(source))
}

fn update(source: &str) -> NodeEdit {
    NodeEdit::Update(node(source))
}

fn delete(id: &str) -> NodeEdit {
    NodeEdit::Delete(name(id))
}

fn problems(bench: &GraphFixture, edits: Vec<NodeEdit>) -> Vec<String> {
    let problems = build_patch(bench.graph(), &edits, &ExprBudget::default()).expect_err("it is valid");
    problems.0.iter().map(ToString::to_string).collect()
}

#[test]
fn patch_inserts_updates_and_deletes_nodes() {
    let mut bench = GraphFixture::of(LINE);
    let edits = vec![delete("b"), insert("{id: x, parents: [a]}"), update("{id: c, parents: [x]}")];
    bench.apply(&bench.edit(edits));
    assert_eq!((bench.statuses().as_str(), bench.graph().revision), ("a RUNNING, c PENDING, x PENDING", 2));
    bench.passes("a").passes("x");
    assert_eq!(bench.dispatched_names(), "c");
}

#[test]
fn node_inserted_after_ended_parents_runs() {
    let mut bench = GraphFixture::of(LINE);
    bench.passes("a");
    bench.apply(&bench.edit(vec![insert("{id: x, parents: [a]}"), insert("{id: w}")]));
    assert_eq!(bench.dispatched_names(), "w x");
    bench.ends("b", NodeStatus::Fail);
    bench.apply(&bench.edit(vec![insert("{id: z, parents: [b]}")]));
    assert_eq!(bench.graph().nodes["z"].status, NodeStatus::Skipped);
}

#[test]
fn stale_revision_rejects_graph_edit() {
    let mut bench = GraphFixture::of(LINE);
    let edit = bench.edit(vec![insert("{id: x}")]);
    bench.apply(&edit);
    let reason = bench.rejected(&edit);
    assert_eq!(reason, "revision conflict: the graph is at revision 2, not 1");
    assert!(is_revision_conflict(&reason) && !is_revision_conflict("there is no \"x\""));
}

#[test]
fn only_pending_nodes_are_edited() {
    let mut bench = GraphFixture::of(LINE);
    bench.passes("a");
    assert_eq!(
        problems(&bench, vec![delete("a"), update("{id: b}"), delete("x")]),
        [
            "edits[0].delete: \"a\" is PASS: only PENDING nodes may be edited",
            "edits[1].update.id: \"b\" is RUNNING: only PENDING nodes may be edited",
            "edits[2].delete: there is no \"x\"",
        ]
    );
}

#[test]
fn parent_of_remaining_node_cannot_be_deleted() {
    let bench = GraphFixture::of(LINE);
    assert_eq!(problems(&bench, vec![delete("b")]), ["edits[0].delete: \"b\" is a parent of \"c\""]);
    let budget = ExprBudget::default();
    assert!(build_patch(bench.graph(), &[delete("b"), delete("c")], &budget).is_ok());
    assert!(build_patch(bench.graph(), &[delete("b"), update("{id: c, parents: [a]}")], &budget).is_ok());
}

#[test]
fn patch_is_validated_as_result() {
    let bench = GraphFixture::of(LINE);
    assert_eq!(
        problems(&bench, vec![update("{id: b, parents: [c]}")]),
        ["edits: these nodes wait for each other: b -> c -> b"]
    );
    assert_eq!(
        problems(&bench, vec![insert("{id: a}"), insert("{id: x, parents: [zz]}"), insert("{id: x}")]),
        [
            "edits[0].insert.id: \"a\" already exists",
            "edits[2].insert: \"x\" is edited twice",
            "edits[1].insert.parents[0]: there is no \"zz\"",
        ]
    );
    assert_eq!(problems(&bench, Vec::new()), ["edits: there is nothing to change"]);
    let many = (0..1_001).map(|n| insert(&format!("{{id: x{n}}}"))).collect();
    assert_eq!(problems(&bench, many), ["edits: there are 1001 edits, at most 1000 are allowed"]);
}

#[test]
fn patch_must_leave_passable_final_node() {
    let mut bench = GraphFixture::of(
        "{name: g, nodes: [{id: a}, {id: b, parents: [a], is_final: true}, {id: c, is_final: true}]}",
    );
    bench.ends("c", NodeStatus::Fail);
    assert_eq!(
        problems(&bench, vec![delete("b")]),
        ["edits: no node with is_final would be left that can still pass"]
    );
    assert!(
        build_patch(bench.graph(), &[delete("b"), insert("{id: x, is_final: true}")], &ExprBudget::default())
            .is_ok()
    );
}

#[test]
fn fan_out_instances_cannot_be_edited() {
    let bench = GraphFixture::of(
        "{name: g, input: {l: [1, 2]}, options: {max_parallel: 1}, nodes: [
        {id: each, fan_out: {over: input.l}}, {id: x}]}",
    );
    assert_eq!(
        problems(
            &bench,
            vec![delete("each.1"), insert("{id: w, parents: [each.0]}"), insert("{id: each.7}")]
        ),
        [
            "edits[0].delete: \"each.1\" is an instance of the fan-out \"each\"",
            "edits[1].insert.parents[0]: is an instance: name the fan-out \"each\" itself",
            "edits[2].insert.id: is reserved for an instance of the fan-out \"each\"",
        ]
    );
    assert_eq!(
        problems(&bench, vec![insert("{id: x.1}"), update("{id: x, fan_out: {over: input.l}}")]),
        [
            "edits[0].insert.id: is reserved for an instance of the fan-out \"x\"",
            "edits: \"x\" cannot be a fan-out: there is \"x.1\"",
        ]
    );
}

#[test]
fn invalid_edit_changes_nothing() {
    let bench = GraphFixture::of(LINE);
    let reason = bench.rejected(&bench.edit(vec![insert("{id: x}"), delete("a")]));
    assert_eq!(reason, "edits[1].delete: \"a\" is RUNNING: only PENDING nodes may be edited");
}

#[test]
fn passing_node_may_edit_graph() {
    let mut bench = GraphFixture::of(LINE);
    let edits =
        vec![insert("{id: x, parents: [{node: a, if: results.a > 1}]}"), update("{id: b, parents: [x]}")];
    let result = Some(json("2"));
    bench.apply(&told("a", &ExecutorAnswer { edits, result, ..answer(NodeStatus::Pass, 1) }));
    assert_eq!(bench.statuses(), "a PASS, b PENDING, c PENDING, x RUNNING");
    assert_eq!(bench.graph().revision, 2);
}

#[test]
fn invalid_answer_edits_fail_their_node() {
    let mut bench = GraphFixture::of(LINE);
    bench.apply(&told("a", &ExecutorAnswer { edits: vec![delete("x")], ..answer(NodeStatus::Pass, 1) }));
    assert_eq!(
        (bench.statuses().as_str(), bench.graph().revision),
        ("a TASK_ERROR, b SKIPPED, c SKIPPED", 1)
    );
    assert_eq!(bench.why("a"), "its edits are invalid: edits[0].delete: there is no \"x\"");
}

#[test]
fn invalid_answer_edits_are_retried() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a, options: {retry: {on: [TASK_ERROR]}}}]}");
    bench.apply(&told("a", &ExecutorAnswer { edits: vec![delete("x")], ..answer(NodeStatus::Pass, 1) }));
    assert_eq!(bench.dispatched()[0].attempt, 2);
}

#[test]
fn failed_node_cannot_edit_graph() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b}]}");
    bench
        .apply(&told("a", &ExecutorAnswer { edits: vec![insert("{id: x}")], ..answer(NodeStatus::Fail, 1) }));
    assert_eq!(bench.statuses(), "a FAIL, b RUNNING");
}

#[test]
fn edit_expressions_see_supplied_results() {
    let mut bench = GraphFixture::of(LINE);
    bench.gives("a", "5");
    let edits = vec![
        insert("{id: x, parents: [{node: a, if: results.a > 1}]}"),
        insert("{id: w, parents: [{node: a, if: results.a > 9}]}"),
    ];
    let bare = GraphEdit { expected_revision: 1, edits, known: Vec::new() };
    let mut without = GraphFixture { state: bench.state.clone(), last: bench.last.clone(), now: bench.now };
    without.apply(&event(Name::edit(), RawJson::from_value(&bare)));
    assert!(without.why("x").contains("is not available"), "{}", without.why("x"));
    let known = GraphEdit { known: vec![(name("a"), json("5")), (name("b"), json("6"))], ..bare };
    bench.apply(&event(Name::edit(), RawJson::from_value(&known)));
    assert_eq!(bench.statuses(), "a PASS, b RUNNING, c PENDING, w FILTERED, x RUNNING");
    assert_eq!(bench.change().patch.as_ref().unwrap().known, [(name("a"), json("5"))]);
}

#[test]
fn edited_ready_node_is_evaluated_again() {
    let mut bench = GraphFixture::of("{name: g, options: {max_parallel: 1}, nodes: [{id: a}, {id: b}]}");
    bench.apply(&bench.edit(vec![update("{id: b, parents: [a]}")]));
    assert!(bench.graph().ready.is_empty());
    bench.ends("a", NodeStatus::Fail);
    assert_eq!(bench.statuses(), "a FAIL, b SKIPPED");
}

#[test]
fn edit_may_insert_fan_out() {
    let mut bench = GraphFixture::of("{name: g, input: {l: [1, 2]}, nodes: [{id: a}]}");
    bench.apply(&bench.edit(vec![insert("{id: each, fan_out: {over: input.l}}")]));
    assert_eq!((bench.dispatched_names().as_str(), bench.graph().revision), ("each.0 each.1", 3));
}

/// Edits that insert `count` nodes, each with a condition that has a pattern.
fn patterned(count: usize) -> Vec<NodeEdit> {
    let node =
        |n| format!("{{id: p{n}, parents: [{{node: a, if: \"results['a'].matches('a{{90}}b{n}')\"}}]}}");
    (0..count).map(|n| insert(&node(n))).collect()
}

#[test]
fn edit_expressions_charge_the_budget() {
    let bench = GraphFixture::of(LINE);
    let budget = ExprBudget::default();
    assert!(build_patch(bench.graph(), &patterned(2), &budget).is_ok());
    assert!(budget.spent() > 4_000, "{}", budget.spent());

    let budget = ExprBudget::with_limits(20_000, STEP_UNITS, millstream_expr::StopRule::NEVER);
    let problems = build_patch(bench.graph(), &patterned(20), &budget).unwrap_err();
    assert_eq!(budget.end(), Some(BudgetEnd::Work));
    let first = problems.0[0].to_string();
    assert!(
        first.ends_with(".insert.parents[0].if: the expressions take too much work on this data"),
        "{first}"
    );

    let long = "x".repeat(2_400);
    let node = |n| format!("{{id: l{n}, parents: [{{node: a, if: \"results['a'] == '{long}'\"}}]}}");
    let rejected = bench.rejected(&bench.edit((0..1_000).map(|n| insert(&node(n))).collect()));
    assert!(rejected.contains("the expressions take too much work on this data"), "{rejected}");
}
