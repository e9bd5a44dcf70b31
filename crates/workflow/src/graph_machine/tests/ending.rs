//! The end of a graph.

use millstream_model::id::{EventId, ExecutionId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::{ExecutionPhase, PauseState};
use millstream_model::time::Timestamp;

use super::fixture::{GraphFixture, event, json, name, spec, timeout};
use crate::definition::ParentClose;
use crate::graph::NodeStatus;
use crate::graph_machine::{create_graph, decide_mailbox, step_graph};
use crate::log::{ActionPlan, EventOutcome, ExecutionParent, MailboxEvent};
use crate::machine::{ActionInput, ENDED, evolve};

fn cancel() -> MailboxEvent {
    event(Name::cancel_event(), json(r#"{"reason":"enough"}"#))
}

#[test]
fn graph_completes_when_leaves_pass() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    bench.passes("a").passes("b");
    assert_eq!(bench.stands(), (Seq(4), "passed".to_owned(), None));
    assert_eq!(bench.state.phase, ExecutionPhase::Completed);
}

#[test]
fn failed_leaf_fails_graph() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [b]}]}");
    bench.passes("a").ends("b", NodeStatus::Fail);
    assert_eq!(bench.stands(), (Seq(4), "failed".to_owned(), Some("node b failed")));
}

#[test]
fn compensated_failure_completes_graph() {
    let mut bench =
        GraphFixture::of("{name: g, nodes: [{id: a}, {id: b, parents: [a], on_failure: continue}]}");
    bench.ends("a", NodeStatus::Fail).passes("b");
    assert_eq!(bench.state.phase, ExecutionPhase::Completed);
}

#[test]
fn final_nodes_alone_decide_graph() {
    let source = "{name: g, nodes: [{id: a, is_final: true}, {id: b}]}";
    let mut bench = GraphFixture::of(source);
    bench.passes("a").ends("b", NodeStatus::Fail);
    assert_eq!(bench.state.phase, ExecutionPhase::Completed);
    let mut bench = GraphFixture::of(source);
    bench.passes("b").ends("a", NodeStatus::Fail);
    assert_eq!(bench.state.phase, ExecutionPhase::Failed);
}

#[test]
fn graph_needs_one_passed_decider() {
    let filtered = "{id: b, parents: [{node: a, if: 'false'}]}";
    let mut bench =
        GraphFixture::of(&format!("{{name: g, nodes: [{{id: a}}, {filtered}, {{id: c, parents: [a]}}]}}"));
    bench.passes("a").passes("c");
    assert_eq!(bench.state.phase, ExecutionPhase::Completed);
    let mut bench = GraphFixture::of(&format!("{{name: g, nodes: [{{id: a}}, {filtered}]}}"));
    bench.passes("a");
    assert_eq!(bench.stands().2, Some("no deciding node passed: all are FILTERED"));
}

#[test]
fn graph_reason_names_three_failures() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b}, {id: c}, {id: d}, {id: e}]}");
    for node in ["e", "d", "c", "b", "a"] {
        bench.ends(node, NodeStatus::Fail);
    }
    assert_eq!(bench.stands().2, Some("nodes a, b, c and 2 more failed"));
}

#[test]
fn cancelled_graph_has_no_open_node() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b}, {id: c, parents: [b]}]}");
    bench.passes("a").apply(&cancel());
    assert_eq!(bench.statuses(), "a PASS, b SKIPPED, c SKIPPED");
    assert_eq!((bench.why("b"), bench.why("c")), ("cancelled", "cancelled"));
    assert_eq!(bench.stands(), (Seq(4), "cancelled".to_owned(), Some("enough")));
    assert_eq!(bench.rejected(&cancel()), ENDED);
}

#[test]
fn operator_may_fail_graph() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}]}");
    bench.apply(&event(Name::fail_event(), RawJson::null()));
    assert_eq!((bench.state.phase, bench.statuses().as_str()), (ExecutionPhase::Failed, "a SKIPPED"));
}

#[test]
fn graph_timeout_fails_graph() {
    let mut bench = GraphFixture::created("{name: g, options: {timeout: 90s}, nodes: [{id: a}]}");
    let [timer] = &bench.last.transition.decision.timers[..] else { panic!() };
    assert_eq!(timer.fire_at, Timestamp::from_millis(91_000));
    bench.apply(&event(Name::begin(), RawJson::null())).apply(&timeout());
    assert_eq!(bench.stands(), (Seq(3), "failed".to_owned(), Some("timed out after 90s")));
    assert_eq!((bench.statuses().as_str(), bench.why("a")), ("a SKIPPED", "timed out"));
}

#[test]
fn graph_can_be_cancelled_before_begin() {
    let mut bench = GraphFixture::created("{name: g, nodes: [{id: a}]}");
    bench.apply(&cancel());
    assert_eq!(bench.statuses(), "a SKIPPED");
}

#[test]
fn child_graph_returns_and_closes_children() {
    let parent = ExecutionParent {
        execution: ExecutionId::parse("outer").unwrap(),
        seq: Seq(7),
        action: name("step"),
        close: ParentClose::Cancel,
        depth: 1,
    };
    let source = "{name: g, nodes: [{id: a}, {id: b, execution: {definition: order}}]}";
    let now = Timestamp::EPOCH;
    let (last, state) =
        create_graph(spec(source), None, EventId(uuid::Uuid::nil()), Some(parent), now).unwrap();
    let mut bench = GraphFixture { state, last, now };
    bench.apply(&event(Name::begin(), RawJson::null())).passes("a").ends("b", NodeStatus::Fail);
    let [told, close] = &bench.last.actions[..] else { panic!("{:?}", bench.last.actions) };
    assert_eq!(close.name, Name::close_children());
    let ActionPlan::Ready { input } = &told.plan else { panic!() };
    let ActionInput::Return(told) = input.decode().unwrap() else { panic!() };
    assert_eq!((told.phase, told.seq, told.action.as_str()), (ExecutionPhase::Failed, Seq(7), "step"));
    assert_eq!(told.context.as_str(), r#"{"nodes":{"PASS":1,"FAIL":1},"status":"failed"}"#);
    assert_eq!(told.reason.as_deref(), Some("node b failed"));
}

#[test]
fn childless_graph_ends_without_actions() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}]}");
    bench.passes("a");
    assert!(bench.last.actions.is_empty());
}

#[test]
fn paused_graph_decides_only_its_end() {
    let bench = GraphFixture::created("{name: g, nodes: [{id: a}]}");
    let begin = event(Name::begin(), RawJson::null());
    let nothing =
        decide_mailbox(bench.state.clone(), std::slice::from_ref(&begin), PauseState::Paused, bench.now);
    assert!(nothing.outcomes.is_empty());
    let ended = decide_mailbox(bench.state.clone(), &[begin, cancel()], PauseState::Paused, bench.now);
    assert_eq!(ended.state.phase, ExecutionPhase::Cancelled);
    assert!(
        matches!(&ended.outcomes[..], [(_, EventOutcome::Applied(_)), (_, EventOutcome::Rejected { reason })] if reason == ENDED)
    );
}

#[test]
fn graph_turn_equals_its_steps() {
    let bench = GraphFixture::created("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    let told = |node| super::fixture::told(node, &super::fixture::answer(NodeStatus::Pass, 1));
    let mailbox = [event(Name::begin(), RawJson::null()), told("a"), told("b"), told("b")];
    let visit = decide_mailbox(bench.state.clone(), &mailbox, PauseState::Running, bench.now);
    let mut state = bench.state;
    for (event, (_, outcome)) in mailbox.iter().zip(&visit.outcomes) {
        assert_eq!(step_graph(&state, event, bench.now), *outcome);
        if let EventOutcome::Applied(applied) = outcome {
            state = evolve(Some(state), &applied.transition);
        }
    }
    assert_eq!((visit.outcomes.len(), &visit.state), (4, &state));
    assert_eq!(state.phase, ExecutionPhase::Completed);
}

#[test]
fn unknown_event_is_rejected_by_graph() {
    let bench = GraphFixture::of("{name: g, nodes: [{id: a}]}");
    let reason = bench.rejected(&event(name("paid"), RawJson::null()));
    assert_eq!(reason, "a graph does not handle \"paid\"");
}
