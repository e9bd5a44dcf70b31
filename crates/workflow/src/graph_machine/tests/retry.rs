//! Attempts: retries, backoff, and stale outcomes.

use millstream_model::id::{ActionKey, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId};
use millstream_model::time::Timestamp;

use super::fixture::{GraphFixture, answer, event, json, told};
use crate::graph::{ExecutorAnswer, NodeStatus};

const ONE: &str = "{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}";

fn error(class: &str) -> crate::log::MailboxEvent {
    event(
        Name::node_outcome(),
        json(&format!(r#"{{"action":"a","attempts":1,"error":{{"class":"{class}","message":"no"}}}}"#)),
    )
}

#[test]
fn transient_node_failure_is_retried_thrice() {
    let mut bench = GraphFixture::of(ONE);
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
fn task_verdict_is_not_retried() {
    for status in [NodeStatus::Fail, NodeStatus::TaskError] {
        let mut bench = GraphFixture::of(ONE);
        bench.ends("a", status);
        assert_eq!(bench.graph().nodes["a"].status, status);
    }
}

#[test]
fn node_retry_overrides_graph_retry() {
    let mut bench = GraphFixture::of(
        "{name: g, options: {node: {retry: {attempts: 1}}}, nodes: [
           {id: a, options: {retry: {attempts: 2, on: [FAIL]}}}, {id: b}]}",
    );
    bench.ends("b", NodeStatus::Crash).ends("a", NodeStatus::Fail);
    assert_eq!(bench.statuses(), "a RUNNING, b CRASH");
    bench.ends("a", NodeStatus::Crash);
    assert_eq!(bench.statuses(), "a CRASH, b CRASH");
}

#[test]
fn node_backoff_doubles_without_jitter() {
    let mut bench = GraphFixture::of(
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
fn retry_avoids_crashed_executors() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a, options: {retry: {attempts: 5}}}]}");
    let statuses = [NodeStatus::Crash, NodeStatus::Timeout, NodeStatus::InfraError, NodeStatus::Crash];
    for (attempt, status) in (1..).zip(statuses) {
        let executor = Some(format!("x{}", attempt.min(3)));
        bench.apply(&told("a", &ExecutorAnswer { executor, ..answer(status, attempt) }));
    }
    assert_eq!(bench.dispatched()[0].avoid, ["x1", "x3"]);
    assert_eq!(bench.graph().nodes["a"].avoid, ["x1", "x3"]);
}

#[test]
fn stale_node_outcome_changes_nothing() {
    let mut bench = GraphFixture::of(ONE);
    let first = told("a", &answer(NodeStatus::Crash, 1));
    bench.apply(&first);
    assert_eq!(bench.rejected(&first), "stale outcome: attempt 1 at a is over, 2 is under way");
    bench.passes("a");
    assert_eq!(bench.rejected(&told("a", &answer(NodeStatus::Pass, 2))), "stale outcome: a is PASS");
    assert_eq!(bench.rejected(&told("x", &answer(NodeStatus::Pass, 1))), "there is no node \"x\"");
}

#[test]
fn undispatched_node_accepts_no_outcome() {
    let bench = GraphFixture::of(ONE);
    assert_eq!(bench.rejected(&told("b", &answer(NodeStatus::Pass, 0))), "stale outcome: b is PENDING");
    let fresh = GraphFixture::created(ONE);
    assert_eq!(fresh.rejected(&told("a", &answer(NodeStatus::Pass, 0))), "the graph has not begun");
}

#[test]
fn engine_failure_becomes_node_status() {
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
        let mut bench = GraphFixture::of("{name: g, nodes: [{id: a, options: {retry: {attempts: 1}}}]}");
        bench.apply(&error(class));
        assert_eq!((bench.graph().nodes["a"].status, bench.why("a")), (status, "no"), "{class}");
    }
}

#[test]
fn unusable_answer_ends_node() {
    let unusable = [
        r#"{"action":"a","result":{"nonsense":1}}"#,
        r#"{"action":"a","result":null}"#,
        r#"{"action":"a","result":{"status":"RUNNING","attempt":1}}"#,
        r#"{"action":"a","result":{"status":"PASS","attempt":1,"edits":[{"delete":"NOT A NAME"}]}}"#,
    ];
    for payload in unusable {
        let mut bench = GraphFixture::of(ONE);
        bench.apply(&event(Name::node_outcome(), json(payload)));
        assert_eq!(bench.statuses(), "a TASK_ERROR, b SKIPPED", "{payload}");
    }
}

#[test]
fn oversized_result_fails_node() {
    let mut bench = GraphFixture::of(ONE);
    bench.gives("a", &format!("\"{}\"", "x".repeat(1024 * 1024)));
    assert_eq!(bench.why("a"), "the result has 1024 KiB, at most 1024 KiB are allowed");
}

#[test]
fn retry_never_precedes_its_transition() {
    let mut bench = GraphFixture::of(ONE);
    bench.now = Timestamp::EPOCH;
    bench.ends("a", NodeStatus::Crash);
    assert_eq!(bench.dispatched()[0].not_before, Some(Timestamp::from_millis(2_000)));
}

#[test]
fn dispatch_reports_success_and_failure() {
    use millstream_model::attempt::{ActionFailure, AttemptOutcome};
    use millstream_model::error_class::ErrorClass;

    use crate::action::conclude_attempt;
    use crate::settle_outcome::ActionAttempt;
    let policy = crate::graph::dispatch_policy();
    let execution =
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("k").unwrap() };
    let key = ActionKey { execution, seq: Seq(1), action: super::fixture::name("a") };
    let whose = ActionAttempt { key: &key, revision: 0, attempts: 1, ready_at: None, traceparent: None };
    let mut id = || EventId(uuid::Uuid::from_u128(1));
    let mut emitted = |performed: AttemptOutcome| {
        let outcome = conclude_attempt(&policy, whose, performed, 0.5, Timestamp::EPOCH, &mut id);
        let submitted = outcome.emitted_event().unwrap();
        event(submitted.name.clone(), submitted.payload.clone())
    };
    let result = millstream_model::raw::RawJson::from_value(&answer(NodeStatus::Pass, 1));
    let mut bench = GraphFixture::of(ONE);
    bench.apply(&emitted(AttemptOutcome::Success { result }));
    assert_eq!(bench.statuses(), "a PASS, b RUNNING");
    let failed = ActionFailure { class: ErrorClass::Network, message: "refused".to_owned(), status: None };
    let mut bench = GraphFixture::of(ONE);
    bench.apply(&emitted(AttemptOutcome::Transient { error: failed, retry_after: None }));
    assert_eq!(bench.why("a"), "attempt 2 of 3 after INFRA_ERROR: refused");
}
