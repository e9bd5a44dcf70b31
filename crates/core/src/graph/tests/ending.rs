//! The end of a graph.

use super::bench::{Bench, event, json, name, spec, timeout};
use crate::definition::ParentClose;
use crate::graph::{NodeStatus, create, step, turn};
use crate::id::{EventId, ExecutionId, Name, Seq};
use crate::log::{Outcome, Parent, Plan, Waiting};
use crate::machine::{ActionInput, ENDED, evolve};
use crate::raw::RawJson;
use crate::status::{PauseState, Phase};
use crate::time::Timestamp;

fn cancel() -> Waiting {
    event(Name::cancel(), json(r#"{"reason":"enough"}"#))
}

#[test]
fn a_graph_passes_when_its_last_nodes_have() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    bench.passes("a").passes("b");
    assert_eq!(bench.stands(), (Seq(4), "passed".to_owned(), None));
    assert_eq!(bench.state.phase, Phase::Completed);
}

#[test]
fn a_graph_fails_when_a_node_without_children_has_not_passed() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [b]}]}");
    bench.passes("a").ends("b", NodeStatus::Fail);
    assert_eq!(bench.stands(), (Seq(4), "failed".to_owned(), Some("node b failed")));
}

#[test]
fn a_failure_that_was_made_up_for_does_not_fail_the_graph() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}, {id: b, parents: [a], on_failure: continue}]}");
    bench.ends("a", NodeStatus::Fail).passes("b");
    assert_eq!(bench.state.phase, Phase::Completed);
}

#[test]
fn where_nodes_are_final_they_alone_decide() {
    let source = "{name: g, nodes: [{id: a, is_final: true}, {id: b}]}";
    let mut bench = Bench::of(source);
    bench.passes("a").ends("b", NodeStatus::Fail);
    assert_eq!(bench.state.phase, Phase::Completed);
    let mut bench = Bench::of(source);
    bench.passes("b").ends("a", NodeStatus::Fail);
    assert_eq!(bench.state.phase, Phase::Failed);
}

#[test]
fn one_deciding_node_must_have_passed_and_none_may_have_failed() {
    let filtered = "{id: b, parents: [{node: a, if: 'false'}]}";
    let mut bench =
        Bench::of(&format!("{{name: g, nodes: [{{id: a}}, {filtered}, {{id: c, parents: [a]}}]}}"));
    bench.passes("a").passes("c");
    assert_eq!(bench.state.phase, Phase::Completed);
    let mut bench = Bench::of(&format!("{{name: g, nodes: [{{id: a}}, {filtered}]}}"));
    bench.passes("a");
    assert_eq!(bench.stands().2, Some("no deciding node passed: all are FILTERED"));
}

#[test]
fn many_failures_are_counted_after_three() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}, {id: b}, {id: c}, {id: d}, {id: e}]}");
    for node in ["e", "d", "c", "b", "a"] {
        bench.ends(node, NodeStatus::Fail);
    }
    assert_eq!(bench.stands().2, Some("nodes a, b, c and 2 more failed"));
}

#[test]
fn a_cancelled_graph_has_no_open_node() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [b]}]}");
    bench.passes("a").apply(&cancel());
    assert_eq!(bench.statuses(), "a PASS, b SKIPPED, c SKIPPED");
    assert_eq!((bench.why("b"), bench.why("c")), ("cancelled", "cancelled"));
    assert_eq!(bench.stands(), (Seq(4), "cancelled".to_owned(), Some("enough")));
    assert_eq!(bench.rejected(&cancel()), ENDED);
}

#[test]
fn an_operator_may_also_fail_it() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}]}");
    bench.apply(&event(Name::fail(), RawJson::null()));
    assert_eq!((bench.state.phase, bench.statuses().as_str()), (Phase::Failed, "a SKIPPED"));
}

#[test]
fn a_timeout_is_armed_at_creation_and_fails_the_graph() {
    let mut bench = Bench::created("{name: g, options: {timeout: 90s}, nodes: [{id: a}]}");
    let [timer] = &bench.last.transition.decision.timers[..] else { panic!() };
    assert_eq!(timer.fire_at, Timestamp::from_millis(91_000));
    bench.apply(&event(Name::begin(), RawJson::null())).apply(&timeout());
    assert_eq!(bench.stands(), (Seq(3), "failed".to_owned(), Some("timed out after 90s")));
    assert_eq!((bench.statuses().as_str(), bench.why("a")), ("a SKIPPED", "timed out"));
}

#[test]
fn a_graph_that_has_not_begun_can_be_cancelled() {
    let mut bench = Bench::created("{name: g, nodes: [{id: a}]}");
    bench.apply(&cancel());
    assert_eq!(bench.statuses(), "a SKIPPED");
}

#[test]
fn a_child_tells_its_parent_and_closes_its_own_children() {
    let parent = Parent {
        execution: ExecutionId::parse("outer").unwrap(),
        seq: Seq(7),
        action: name("step"),
        close: ParentClose::Cancel,
        depth: 1,
    };
    let source = "{name: g, nodes: [{id: a}, {id: b, execution: {definition: order}}]}";
    let now = Timestamp::EPOCH;
    let (last, state) = create(spec(source), None, EventId(uuid::Uuid::nil()), Some(parent), now).unwrap();
    let mut bench = Bench { state, last, now };
    bench.apply(&event(Name::begin(), RawJson::null())).passes("a").ends("b", NodeStatus::Fail);
    let [told, close] = &bench.last.actions[..] else { panic!("{:?}", bench.last.actions) };
    assert_eq!(close.name, Name::close_children());
    let Plan::Ready { input } = &told.plan else { panic!() };
    let ActionInput::Return(told) = input.decode().unwrap() else { panic!() };
    assert_eq!((told.phase, told.seq, told.action.as_str()), (Phase::Failed, Seq(7), "step"));
    assert_eq!(told.context.as_str(), r#"{"nodes":{"PASS":1,"FAIL":1},"status":"failed"}"#);
    assert_eq!(told.reason.as_deref(), Some("node b failed"));
}

#[test]
fn a_graph_without_children_owes_nothing_at_its_end() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a}]}");
    bench.passes("a");
    assert!(bench.last.actions.is_empty());
}

#[test]
fn while_paused_only_the_end_is_decided() {
    let bench = Bench::created("{name: g, nodes: [{id: a}]}");
    let begin = event(Name::begin(), RawJson::null());
    let nothing = turn(bench.state.clone(), std::slice::from_ref(&begin), PauseState::Paused, bench.now);
    assert!(nothing.outcomes.is_empty());
    let ended = turn(bench.state.clone(), &[begin, cancel()], PauseState::Paused, bench.now);
    assert_eq!(ended.state.phase, Phase::Cancelled);
    assert!(
        matches!(&ended.outcomes[..], [(_, Outcome::Applied(_)), (_, Outcome::Rejected { reason })] if reason == ENDED)
    );
}

#[test]
fn a_turn_decides_what_its_steps_decide() {
    let bench = Bench::created("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    let told = |node| super::bench::told(node, &super::bench::answer(NodeStatus::Pass, 1));
    let mailbox = [event(Name::begin(), RawJson::null()), told("a"), told("b"), told("b")];
    let visit = turn(bench.state.clone(), &mailbox, PauseState::Running, bench.now);
    let mut state = bench.state;
    for (event, (_, outcome)) in mailbox.iter().zip(&visit.outcomes) {
        assert_eq!(step(&state, event, bench.now), *outcome);
        if let Outcome::Applied(applied) = outcome {
            state = evolve(Some(state), &applied.transition);
        }
    }
    assert_eq!((visit.outcomes.len(), &visit.state), (4, &state));
    assert_eq!(state.phase, Phase::Completed);
}

#[test]
fn what_a_graph_does_not_know_is_rejected() {
    let bench = Bench::of("{name: g, nodes: [{id: a}]}");
    let reason = bench.rejected(&event(name("paid"), RawJson::null()));
    assert_eq!(reason, "a graph does not handle \"paid\"");
}
