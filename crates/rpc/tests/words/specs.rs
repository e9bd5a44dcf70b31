//! Round trips of user-written specs, and their problems.

use millstream_core::problem::Problems;
use millstream_rpc::{proto, read, write};
use proptest::prelude::*;

use crate::arbitrary;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nodes_come_back_as_they_were(spec in arbitrary::spec(3)) {
        prop_assert_eq!(read::node(write::node(&spec)), Ok(spec));
    }

    #[test]
    fn workflows_come_back_as_they_were(spec in arbitrary::graph_spec()) {
        let proto::Graph { name, description, input_json, options, nodes } = write::graph(&spec);
        let metadata = Some(proto::WorkflowMetadata { name, description, creator: "another creator".into() });
        let workflow = proto::Workflow { metadata, input_json, options, nodes, ..Default::default() };
        prop_assert_eq!(read::workflow(workflow), Ok(spec));
    }

    #[test]
    fn edits_come_back_as_they_were(edits in prop::collection::vec(arbitrary::edit(), 0..4)) {
        prop_assert_eq!(read::edits(edits.iter().map(write::edit).collect()), Ok(edits));
    }
}

fn lines(problems: Problems) -> Vec<String> {
    problems.0.iter().map(ToString::to_string).collect()
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let good = proto::Node { id: "a".into(), ..Default::default() };
    let bad = proto::Node {
        id: "B".into(),
        parents: vec![proto::Parent { node: String::new(), condition: None }],
        agent: Some(proto::Agent { labels: vec!["gpu".into(), "GPU".into()], ..Default::default() }),
        assigned_task: Some(proto::Task {
            dependencies: [("plan".to_owned(), "No".to_owned())].into(),
            ..Default::default()
        }),
        on_failure: 7,
        options: Some(proto::ExecutionOptions {
            timeout: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
            retry: Some(proto::RetryOptions { on: vec![3, 99], ..Default::default() }),
        }),
        graph: Some(proto::Graph { input_json: "{".into(), ..Default::default() }),
        execution: Some(proto::SubExecution { definition: String::new(), ..Default::default() }),
        ..Default::default()
    };
    let workflow = proto::Workflow { nodes: vec![good, bad], ..Default::default() };
    let found = lines(read::workflow(workflow).unwrap_err());
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(
        places,
        [
            "nodes[1].id",
            "nodes[1].parents[0].node",
            "nodes[1].agent.labels[1]",
            "nodes[1].assigned_task.dependencies",
            "nodes[1].options.timeout",
            "nodes[1].options.retry.on[1]",
            "nodes[1].on_failure",
            "nodes[1].graph.input_json",
            "nodes[1].execution.definition",
        ],
        "{found:#?}"
    );
}

#[test]
fn twenty_thousand_mistakes_are_told_a_hundred_times() {
    let workflow = proto::Workflow { nodes: vec![proto::Node::default(); 20_000], ..Default::default() };
    assert_eq!(read::workflow(workflow).unwrap_err().0.len(), 100);
}

#[test]
fn an_edit_says_what_it_is_and_of_which_node() {
    let node = || Some(proto::Node { id: "a".into(), ..Default::default() });
    let edit = |kind: i32, node, node_id: &str| proto::NodeEdit { kind, node, node_id: node_id.into() };
    let given = vec![
        edit(0, node(), ""),
        edit(9, node(), ""),
        edit(1, None, ""),
        edit(2, node(), "b"),
        edit(3, node(), "a"),
        edit(3, None, ""),
        edit(2, node(), "a"),
    ];
    assert_eq!(
        lines(read::edits(given).unwrap_err()),
        [
            "edits[0].kind: must be INSERT, UPDATE or DELETE",
            "edits[1].kind: 9 is not a kind of edit",
            "edits[2].node: is required",
            "edits[3].node_id: is not the id of the node",
            "edits[4].node: does not belong to a DELETE, which has a node_id",
            "edits[5].node_id: must not be empty",
        ]
    );
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let retry = Some(proto::RetryOptions::default());
    let options = Some(proto::ExecutionOptions { timeout: None, retry });
    let spec = read::node(proto::Node { id: "a".into(), options, ..Default::default() }).unwrap();
    assert_eq!(spec.options.retry, Some(millstream_core::graph::NodeRetry::default()));
}

#[test]
fn input_nested_too_deep_is_refused() {
    let input_json = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let found = lines(read::workflow(proto::Workflow { input_json, ..Default::default() }).unwrap_err());
    assert_eq!(found, ["input_json: nested deeper than 64 levels"]);
}
