//! Attempts: retries, backoff, and stale outcomes.

use super::bench::{Bench, answer, event, json, told};
use crate::graph::{Answer, NodeStatus};
use crate::id::Name;
use crate::time::Timestamp;

const ONE: &str = "{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}";

fn error(class: &str) -> crate::log::Waiting {
    event(
        Name::node_outcome(),
        json(&format!(r#"{{"action":"a","attempts":1,"error":{{"class":"{class}","message":"no"}}}}"#)),
    )
}

#[test]
fn what_may_be_nobody_s_fault_is_tried_three_times() {
    let mut bench = Bench::of(ONE);
    bench.ends("a", NodeStatus::Crash);
    assert_eq!((bench.statuses().as_str(), bench.graph().nodes["a"].attempt), ("a RUNNING, b PENDING", 2));
    assert_eq!(bench.why("a"), "attempt 2 of 3 after CRASH");
    bench.ends("a", NodeStatus::Timeout);
    assert_eq!(bench.dispatched()[0].attempt, 3);
    bench.ends("a", NodeStatus::InfraError);
    assert_eq!(bench.statuses(), "a INFRA_ERROR, b SKIPPED");
    assert_eq!(bench.dispatched_names(), "");
}

#[test]
fn what_the_task_itself_says_is_final() {
    for status in [NodeStatus::Fail, NodeStatus::TaskError] {
        let mut bench = Bench::of(ONE);
        bench.ends("a", status);
        assert_eq!(bench.graph().nodes["a"].status, status);
    }
}

#[test]
fn a_node_s_own_retries_come_before_those_of_its_graph() {
    let mut bench = Bench::of(
        "{name: g, options: {node: {retry: {attempts: 1}}}, nodes: [
           {id: a, options: {retry: {attempts: 2, on: [FAIL]}}}, {id: b}]}",
    );
    bench.ends("b", NodeStatus::Crash).ends("a", NodeStatus::Fail);
    assert_eq!(bench.statuses(), "a RUNNING, b CRASH");
    bench.ends("a", NodeStatus::Crash);
    assert_eq!(bench.statuses(), "a CRASH, b CRASH");
}

#[test]
fn waits_double_up_to_the_longest_and_leave_nothing_to_chance() {
    let mut bench = Bench::of(
        "{name: g, nodes: [{id: a, options: {retry: {attempts: 6, backoff: 2s, max: 7s, on: [CRASH]}}}]}",
    );
    let mut waits = Vec::new();
    for _ in 1..5 {
        bench.ends("a", NodeStatus::Crash);
        waits.push(bench.dispatched()[0].not_before.unwrap().since(bench.state.at).as_secs());
    }
    assert_eq!(waits, [2, 4, 7, 7]);
}

#[test]
fn another_attempt_avoids_executors_that_died_over_the_node() {
    let mut bench = Bench::of("{name: g, nodes: [{id: a, options: {retry: {attempts: 5}}}]}");
    let statuses = [NodeStatus::Crash, NodeStatus::Timeout, NodeStatus::InfraError, NodeStatus::Crash];
    for (attempt, status) in (1..).zip(statuses) {
        let executor = Some(format!("x{}", attempt.min(3)));
        bench.apply(&told("a", &Answer { executor, ..answer(status, attempt) }));
    }
    assert_eq!(bench.dispatched()[0].avoid, ["x1", "x3"]);
    assert_eq!(bench.graph().nodes["a"].avoid, ["x1", "x3"]);
}

#[test]
fn an_outcome_that_comes_too_late_changes_nothing() {
    let mut bench = Bench::of(ONE);
    let first = told("a", &answer(NodeStatus::Crash, 1));
    bench.apply(&first);
    assert_eq!(bench.rejected(&first), "stale outcome: attempt 1 at a is over, 2 is under way");
    bench.passes("a");
    assert_eq!(bench.rejected(&told("a", &answer(NodeStatus::Pass, 2))), "stale outcome: a is PASS");
    assert_eq!(bench.rejected(&told("x", &answer(NodeStatus::Pass, 1))), "there is no node \"x\"");
}

#[test]
fn a_node_that_has_not_been_dispatched_has_no_outcome() {
    let bench = Bench::of(ONE);
    assert_eq!(bench.rejected(&told("b", &answer(NodeStatus::Pass, 0))), "stale outcome: b is PENDING");
    let fresh = Bench::created(ONE);
    assert_eq!(fresh.rejected(&told("a", &answer(NodeStatus::Pass, 0))), "the graph has not begun");
}

#[test]
fn a_failure_within_the_engine_is_a_status_of_the_node() {
    let cases = [
        ("timeout", NodeStatus::Timeout),
        ("heartbeat", NodeStatus::Timeout),
        ("network", NodeStatus::InfraError),
        ("internal", NodeStatus::InfraError),
        ("input", NodeStatus::TaskError),
        ("response", NodeStatus::TaskError),
        ("card_declined", NodeStatus::TaskError),
        ("child", NodeStatus::Fail),
    ];
    for (class, status) in cases {
        let mut bench = Bench::of("{name: g, nodes: [{id: a, options: {retry: {attempts: 1}}}]}");
        bench.apply(&error(class));
        assert_eq!((bench.graph().nodes["a"].status, bench.why("a")), (status, "no"), "{class}");
    }
}

#[test]
fn an_answer_that_cannot_be_used_does_not_leave_the_node_running() {
    let unusable = [
        r#"{"action":"a","result":{"nonsense":1}}"#,
        r#"{"action":"a","result":null}"#,
        r#"{"action":"a","result":{"status":"RUNNING","attempt":1}}"#,
        r#"{"action":"a","result":{"status":"PASS","attempt":1,"edits":[{"delete":"NOT A NAME"}]}}"#,
    ];
    for payload in unusable {
        let mut bench = Bench::of(ONE);
        bench.apply(&event(Name::node_outcome(), json(payload)));
        assert_eq!(bench.statuses(), "a TASK_ERROR, b SKIPPED", "{payload}");
    }
}

#[test]
fn a_result_beyond_the_limit_is_no_result() {
    let mut bench = Bench::of(ONE);
    bench.gives("a", &format!("\"{}\"", "x".repeat(1024 * 1024)));
    assert_eq!(bench.why("a"), "the result has 1024 KiB, at most 1024 KiB are allowed");
}

#[test]
fn a_retry_is_not_before_the_transition_that_decides_it() {
    let mut bench = Bench::of(ONE);
    bench.now = Timestamp::EPOCH;
    bench.ends("a", NodeStatus::Crash);
    assert_eq!(bench.dispatched()[0].not_before, Some(Timestamp::from_millis(2_000)));
}

#[test]
fn the_dispatch_of_a_node_tells_the_graph_of_success_and_failure_alike() {
    use crate::action::{ActionError, Attempt, Conclusion, ErrorClass, OnFailure, conclude};
    let spec = crate::graph::dispatch_spec(&super::bench::name("a"));
    let result = crate::raw::RawJson::of(&answer(NodeStatus::Pass, 1));
    let Conclusion::Succeeded { emit: Some((event_name, payload)), .. } =
        conclude(&spec, "k", 1, Attempt::Success { result }, 0.5)
    else {
        panic!()
    };
    let mut bench = Bench::of(ONE);
    bench.apply(&event(event_name, payload));
    assert_eq!(bench.statuses(), "a PASS, b RUNNING");
    let failed = ActionError { class: ErrorClass::Network, message: "refused".to_owned(), status: None };
    let concluded = conclude(&spec, "k", 1, Attempt::Transient { error: failed, retry_after: None }, 0.5);
    let Conclusion::Failed { then: OnFailure::Emit(event_name, payload), .. } = concluded else {
        panic!("{concluded:?}")
    };
    let mut bench = Bench::of(ONE);
    bench.apply(&event(event_name, payload));
    assert_eq!(bench.why("a"), "attempt 2 of 3 after INFRA_ERROR: refused");
}
