//! Round trips of user-written specs, and their problems.

use millstream_model::problem::ValidationProblems;
use millstream_rpc::{proto, read, write};
use proptest::prelude::*;

use crate::arbitrary;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn node_specs_round_trip(spec in arbitrary::spec(3)) {
        prop_assert_eq!(read::read_node(write::encode_node_spec(&spec)), Ok(spec));
    }

    #[test]
    fn workflow_specs_round_trip(spec in arbitrary::graph_spec()) {
        let proto::Graph { name, description, input_json, options, nodes } = write::encode_graph_spec(&spec);
        let metadata = Some(proto::WorkflowMetadata { name, description, creator: "another creator".into() });
        let workflow = proto::Workflow { metadata, input_json, options, nodes, ..Default::default() };
        prop_assert_eq!(read::read_workflow(workflow), Ok(spec));
    }

    #[test]
    fn node_edits_round_trip(edits in prop::collection::vec(arbitrary::edit(), 0..4)) {
        prop_assert_eq!(read::read_edits(edits.iter().map(write::encode_edit).collect()), Ok(edits));
    }
}

fn lines(problems: ValidationProblems) -> Vec<String> {
    problems.0.iter().map(ToString::to_string).collect()
}

#[test]
fn workflow_problems_name_their_paths() {
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
    let found = lines(read::read_workflow(workflow).unwrap_err());
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
fn reported_problems_are_capped() {
    let workflow = proto::Workflow { nodes: vec![proto::Node::default(); 20_000], ..Default::default() };
    assert_eq!(read::read_workflow(workflow).unwrap_err().0.len(), 100);
}

#[test]
fn edits_need_kind_and_node() {
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
        lines(read::read_edits(given).unwrap_err()),
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
fn omitted_retry_options_get_defaults() {
    let retry = Some(proto::RetryOptions::default());
    let options = Some(proto::ExecutionOptions { timeout: None, retry });
    let spec = read::read_node(proto::Node { id: "a".into(), options, ..Default::default() }).unwrap();
    assert_eq!(spec.options.retry, Some(millstream_workflow::graph::NodeRetry::default()));
}

#[test]
fn deeply_nested_input_is_refused() {
    let input_json = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let found = lines(read::read_workflow(proto::Workflow { input_json, ..Default::default() }).unwrap_err());
    assert_eq!(found, ["input_json: nested deeper than 64 levels"]);
}
