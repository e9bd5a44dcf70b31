//! Notices to watchers, and re-deciding recorded histories.

use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::fixture::{GraphFixture, answer, event, node, told};
use crate::graph::{NodeEdit, NodeStatus};
use crate::graph_machine::{redecide_graph, transition_notices};
use crate::machine::RecordedTransition;

fn told_by(bench: &GraphFixture) -> Vec<String> {
    transition_notices(&bench.last.transition)
        .iter()
        .map(|notice| RawJson::from_value(notice).as_str().to_owned())
        .collect()
}

#[test]
fn every_graph_change_has_a_notice() {
    let mut bench = GraphFixture::created(
        "{name: g, input: {l: [1]}, nodes: [{id: a}, {id: b, parents: [a]},
           {id: each, parents: [b], fan_out: {over: input.l}}, {id: z, parents: [{node: b, if: 'false'}]}]}",
    );
    assert_eq!(told_by(&bench), [r#"{"type":"workflow.created","name":"g","nodes":4}"#]);
    bench.apply(&event(Name::begin(), RawJson::null()));
    assert_eq!(
        told_by(&bench),
        [r#"{"type":"node.scheduled","node":"a","attempt":1,"why":"has no parents"}"#]
    );
    bench.ends("a", NodeStatus::Crash);
    assert_eq!(
        told_by(&bench),
        [r#"{"type":"node.retried","node":"a","attempt":2,"why":"attempt 2 of 3 after CRASH"}"#]
    );
    bench.passes("a").passes("b");
    assert_eq!(
        told_by(&bench),
        [
            r#"{"type":"node.expanded","node":"each","instances":1,"revision":2}"#,
            r#"{"type":"node.completed","node":"b","status":"PASS","attempt":1}"#,
            r#"{"type":"node.completed","node":"z","status":"FILTERED","attempt":0,"why":"condition on b is false: false"}"#,
            r#"{"type":"node.scheduled","node":"each.0","attempt":1,"why":"item 0 of each"}"#,
        ]
    );
    bench.apply(&bench.edit(vec![NodeEdit::Insert(node("{id: x}"))]));
    assert_eq!(
        told_by(&bench)[0],
        r#"{"type":"workflow.edited","revision":3,"inserted":[{"id":"x"}],"updated":[],"deleted":[]}"#
    );
    bench.passes("x").ends("each.0", NodeStatus::Fail);
    assert_eq!(told_by(&bench)[2], r#"{"type":"workflow.failed","reason":"nodes each, each.0 failed"}"#);
}

#[test]
fn graph_notice_kind_is_json_type() {
    let mut bench = GraphFixture::of("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    bench.passes("a").apply(&event(Name::cancel_event(), RawJson::null()));
    for notice in transition_notices(&bench.last.transition) {
        let json = RawJson::from_value(&notice);
        assert!(json.as_str().starts_with(&format!("{{\"type\":\"{}\"", notice.kind())), "{json}");
    }
}

#[test]
fn redecide_finds_exactly_the_differences() {
    let mut bench = GraphFixture::created("{name: g, nodes: [{id: a}, {id: b, parents: [a]}]}");
    let recorded = |bench: &GraphFixture, payload: RawJson| RecordedTransition {
        transition: bench.last.transition.clone(),
        payload,
        accepted_at: Timestamp::EPOCH,
    };
    let mut history = vec![recorded(&bench, RawJson::null())];
    let events = [
        event(Name::begin(), RawJson::null()),
        told("a", &answer(NodeStatus::Crash, 1)),
        told("a", &answer(NodeStatus::Pass, 2)),
        told("b", &answer(NodeStatus::Pass, 1)),
    ];
    for event in events {
        bench.apply(&event);
        history.push(recorded(&bench, event.payload));
    }
    assert_eq!(redecide_graph(&history), []);
    let change = history[3].transition.decision.graph.as_mut().unwrap();
    change.nodes[0].why = Some("another".to_owned());
    history[4].payload = RawJson::null();
    let parts: Vec<_> = redecide_graph(&history).iter().map(|found| (found.seq.0, found.part)).collect();
    assert_eq!(parts, [(4, "graph"), (5, "outcome")]);
}
