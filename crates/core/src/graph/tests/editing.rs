//! Edits: applied as a whole or not at all, and only to `PENDING` nodes.

use super::bench::{Bench, answer, event, json, name, node, told};
use crate::expr::{Budget, BudgetEnd, STEP_UNITS};
use crate::graph::{Answer, Edit, NodeEdit, NodeStatus, is_revision_conflict, patch};
use crate::id::Name;
use crate::raw::RawJson;

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

fn problems(bench: &Bench, edits: Vec<NodeEdit>) -> Vec<String> {
    let problems = patch(bench.graph(), &edits, &Budget::default()).expect_err("it is valid");
    problems.0.iter().map(ToString::to_string).collect()
}

#[test]
fn nodes_are_inserted_updated_and_deleted_in_one_patch() {
    let mut bench = Bench::of(LINE);
    let edits = vec![delete("b"), insert("{id: x, parents: [a]}"), update("{id: c, parents: [x]}")];
    bench.apply(&bench.edit(edits));
    assert_eq!((bench.statuses().as_str(), bench.graph().revision), ("a RUNNING, c PENDING, x PENDING", 2));
    bench.passes("a").passes("x");
    assert_eq!(bench.dispatched_names(), "c");
}

#[test]
fn a_new_node_after_nodes_that_have_ended_runs_at_once() {
    let mut bench = Bench::of(LINE);
    bench.passes("a");
    bench.apply(&bench.edit(vec![insert("{id: x, parents: [a]}"), insert("{id: w}")]));
    assert_eq!(bench.dispatched_names(), "w x");
    bench.ends("b", NodeStatus::Fail);
    bench.apply(&bench.edit(vec![insert("{id: z, parents: [b]}")]));
    assert_eq!(bench.graph().nodes["z"].status, NodeStatus::Skipped);
}

#[test]
fn an_edit_is_for_the_revision_that_its_author_saw() {
    let mut bench = Bench::of(LINE);
    let edit = bench.edit(vec![insert("{id: x}")]);
    bench.apply(&edit);
    let reason = bench.rejected(&edit);
    assert_eq!(reason, "revision conflict: the graph is at revision 2, not 1");
    assert!(is_revision_conflict(&reason) && !is_revision_conflict("there is no \"x\""));
}

#[test]
fn the_past_is_not_edited() {
    let mut bench = Bench::of(LINE);
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
fn nobody_is_left_with_a_parent_that_is_gone() {
    let bench = Bench::of(LINE);
    assert_eq!(problems(&bench, vec![delete("b")]), ["edits[0].delete: \"b\" is a parent of \"c\""]);
    let budget = Budget::default();
    assert!(patch(bench.graph(), &[delete("b"), delete("c")], &budget).is_ok());
    assert!(patch(bench.graph(), &[delete("b"), update("{id: c, parents: [a]}")], &budget).is_ok());
}

#[test]
fn a_patch_is_checked_as_the_graph_that_it_makes() {
    let bench = Bench::of(LINE);
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
fn one_final_node_must_still_be_able_to_pass() {
    let mut bench = Bench::of(
        "{name: g, nodes: [{id: a}, {id: b, parents: [a], is_final: true}, {id: c, is_final: true}]}",
    );
    bench.ends("c", NodeStatus::Fail);
    assert_eq!(
        problems(&bench, vec![delete("b")]),
        ["edits: no node with is_final would be left that can still pass"]
    );
    assert!(
        patch(bench.graph(), &[delete("b"), insert("{id: x, is_final: true}")], &Budget::default()).is_ok()
    );
}

#[test]
fn instances_of_a_fan_out_are_not_edited_and_nobody_s_parents() {
    let bench = Bench::of(
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
fn an_invalid_edit_changes_nothing() {
    let bench = Bench::of(LINE);
    let reason = bench.rejected(&bench.edit(vec![insert("{id: x}"), delete("a")]));
    assert_eq!(reason, "edits[1].delete: \"a\" is RUNNING: only PENDING nodes may be edited");
}

#[test]
fn a_node_that_passes_may_change_what_comes_after_it() {
    let mut bench = Bench::of(LINE);
    let edits =
        vec![insert("{id: x, parents: [{node: a, if: results.a > 1}]}"), update("{id: b, parents: [x]}")];
    let result = Some(json("2"));
    bench.apply(&told("a", &Answer { edits, result, ..answer(NodeStatus::Pass, 1) }));
    assert_eq!(bench.statuses(), "a PASS, b PENDING, c PENDING, x RUNNING");
    assert_eq!(bench.graph().revision, 2);
}

#[test]
fn invalid_edits_make_the_outcome_an_error_and_leave_the_graph_as_it_was() {
    let mut bench = Bench::of(LINE);
    bench.apply(&told("a", &Answer { edits: vec![delete("x")], ..answer(NodeStatus::Pass, 1) }));
    assert_eq!(
        (bench.statuses().as_str(), bench.graph().revision),
        ("a TASK_ERROR, b SKIPPED, c SKIPPED", 1)
    );
    assert_eq!(bench.why("a"), "its edits are invalid: edits[0].delete: there is no \"x\"");
}

#[test]
fn invalid_edits_are_tried_again_where_task_errors_are() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a, options: {retry: {on: [TASK_ERROR]}}}]}");
    bench.apply(&told("a", &Answer { edits: vec![delete("x")], ..answer(NodeStatus::Pass, 1) }));
    assert_eq!(bench.dispatched()[0].attempt, 2);
}

#[test]
fn edits_of_a_node_that_did_not_pass_are_not_applied() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}, {id: b}]}");
    bench.apply(&told("a", &Answer { edits: vec![insert("{id: x}")], ..answer(NodeStatus::Fail, 1) }));
    assert_eq!(bench.statuses(), "a FAIL, b RUNNING");
}

#[test]
fn what_an_edit_brings_along_is_known_to_its_expressions() {
    let mut bench = Bench::of(LINE);
    bench.gives("a", "5");
    let edits = vec![
        insert("{id: x, parents: [{node: a, if: results.a > 1}]}"),
        insert("{id: w, parents: [{node: a, if: results.a > 9}]}"),
    ];
    let bare = Edit { expected_revision: 1, edits, known: Vec::new() };
    let mut without = Bench { state: bench.state.clone(), last: bench.last.clone(), now: bench.now };
    without.apply(&event(Name::edit(), RawJson::of(&bare)));
    assert!(without.why("x").contains("is not available"), "{}", without.why("x"));
    let known = Edit { known: vec![(name("a"), json("5")), (name("b"), json("6"))], ..bare };
    bench.apply(&event(Name::edit(), RawJson::of(&known)));
    assert_eq!(bench.statuses(), "a PASS, b RUNNING, c PENDING, w FILTERED, x RUNNING");
    assert_eq!(bench.change().patch.as_ref().unwrap().known, [(name("a"), json("5"))]);
}

#[test]
fn a_node_that_waits_for_room_may_be_edited_and_is_looked_at_anew() {
    let mut bench = Bench::of("{name: g, options: {max_parallel: 1}, nodes: [{id: a}, {id: b}]}");
    bench.apply(&bench.edit(vec![update("{id: b, parents: [a]}")]));
    assert!(bench.graph().ready.is_empty());
    bench.ends("a", NodeStatus::Fail);
    assert_eq!(bench.statuses(), "a FAIL, b SKIPPED");
}

#[test]
fn a_fan_out_may_come_by_an_edit() {
    let mut bench = Bench::of("{name: g, input: {l: [1, 2]}, nodes: [{id: a}]}");
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
fn expressions_of_edits_are_paid_for_by_their_step() {
    let bench = Bench::of(LINE);
    let budget = Budget::default();
    assert!(patch(bench.graph(), &patterned(2), &budget).is_ok());
    assert!(budget.spent() > 4_000, "{}", budget.spent());

    let budget = Budget::with_limits(20_000, STEP_UNITS, crate::expr::StopRule::NEVER);
    let problems = patch(bench.graph(), &patterned(20), &budget).unwrap_err();
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
