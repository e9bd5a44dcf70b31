//! Validation: problems that prevent the creation of a graph.

use super::fixture::{GraphFixture, problems};
use crate::graph::limits::{MAX_EDGES, MAX_NODES};

#[test]
fn graph_references_are_validated() {
    let found = problems(
        "{name: g, nodes: [{id: a}, {id: a}, {id: b, parents: [b]}, {id: c, parents: [a, a, x]},
           {id: millstream.x}, {id: d, task: {dependencies: {outline: a}}}]}",
    );
    assert_eq!(
        found,
        [
            "nodes[1].id: \"a\" is defined twice",
            "nodes[2].parents[0]: a node cannot be its own parent",
            "nodes[3].parents[1]: \"a\" is named twice",
            "nodes[3].parents[2]: there is no \"x\" (did you mean \"a\"?)",
            "nodes[4].id: ids that begin with \"millstream.\" are reserved for the engine",
            "nodes[5].task.dependencies.outline: \"a\" is not a parent of this node",
        ]
    );
}

#[test]
fn graph_cycle_names_its_nodes() {
    let found = problems(
        "{name: g, nodes: [{id: r}, {id: c, parents: [b]}, {id: a, parents: [c, r]}, {id: b, parents: [a]},
           {id: z, parents: [c]}]}",
    );
    assert_eq!(found, ["nodes: these nodes wait for each other: a -> b -> c -> a"]);
}

#[test]
fn empty_graph_is_refused() {
    assert_eq!(problems("{name: g, nodes: []}"), ["nodes: a graph has at least one node"]);
}

#[test]
fn expressions_see_input_and_parent_results() {
    let condition = |source: &str| {
        problems(&format!(
            "{{name: g, nodes: [{{id: a}}, {{id: b}}, {{id: c, parents: [{{node: a, if: {source:?}}}]}}]}}"
        ))
    };
    assert!(condition("results.a.x > input.y && has(results.a.z)").is_empty());
    assert!(condition("results[\"a\"] == results['a']").is_empty());
    assert_eq!(
        condition("results.b > 1")[0],
        "nodes[2].parents[0].if: \"b\" is not a parent of this node (did you mean \"a\"?)"
    );
    assert!(condition("context.x > 1")[0].contains("expressions begin with input, results"));
    assert!(condition("now > 1")[0].contains("unknown name \"now\""));
    assert!(condition("size(results) > 1")[0].contains("results must be referenced one by one"));
    assert!(condition("results[input.x] > 1")[0].contains("results must be referenced one by one"));
    assert!(condition("results[\"\\x61\"] > 1")[0].contains("write the result of \"a\" as"));
    assert!(condition("1 +")[0].starts_with("nodes[2].parents[0].if: "));
    assert!(condition("input.exists(input, true)")[0].contains("may not be called input"));
}

#[test]
fn node_is_graph_or_execution() {
    let found = problems(
        "{name: g, nodes: [{id: a, graph: {name: i, nodes: [{id: x}]}, execution: {definition: d}}]}",
    );
    assert_eq!(found, ["nodes[0].execution: a node is a graph or an execution, not both"]);
}

#[test]
fn nested_graphs_are_checked_and_bounded() {
    let found = problems("{name: g, nodes: [{id: a, graph: {name: i, nodes: [{id: x, parents: [w]}]}}]}");
    assert_eq!(found, ["nodes[0].graph.nodes[0].parents[0]: there is no \"w\" (did you mean \"x\"?)"]);
    let nested = |depth: usize| {
        let inner = (0..depth).fold("{id: x}".to_owned(), |inner, _| {
            format!("{{id: x, graph: {{name: i, nodes: [{inner}]}}}}")
        });
        problems(&format!("{{name: g, nodes: [{inner}]}}"))
    };
    assert!(nested(4).is_empty());
    assert!(nested(5)[0].ends_with(".graph: graphs nest 4 deep at most"), "{:?}", nested(5));
}

#[test]
fn instance_ids_are_reserved() {
    let found = problems(
        "{name: g, input: {l: []}, nodes: [{id: each, fan_out: {over: input.l}}, {id: each.0}, {id: each.x},
           {id: other.0}, {id: other}]}",
    );
    assert_eq!(found, ["nodes[1].id: is reserved for an instance of the fan-out \"each\""]);
    let id = "x".repeat(125);
    let found = problems(&format!("{{name: g, nodes: [{{id: {id}, fan_out: {{over: input.l}}}}]}}"));
    assert_eq!(found, ["nodes[0].id: the id of a fan-out may have 122 characters"]);
}

#[test]
fn graph_options_must_be_in_range() {
    let found = problems(
        "{name: g, input: [1], options: {max_parallel: 0}, nodes: [
           {id: a, options: {retry: {attempts: 0, on: [PASS]}}}]}",
    );
    assert_eq!(
        found,
        [
            "input: must be an object",
            "options.max_parallel: must be at least 1",
            "nodes[0].options.retry.attempts: must be from 1 to 1000",
            "nodes[0].options.retry.on: PASS is not a failure",
        ]
    );
}

#[test]
fn sub_millisecond_durations_are_refused() {
    use std::time::Duration;
    let mut graph = super::fixture::spec("{name: g, nodes: [{id: a}]}");
    for length in [Duration::ZERO, Duration::from_micros(1_500), Duration::from_secs(1 << 40)] {
        graph.nodes[0].options.timeout = Some(length);
        assert!(crate::graph::validate_graph(&graph).is_err(), "{length:?}");
    }
    graph.nodes[0].options.timeout = Some(Duration::from_millis(1));
    assert!(crate::graph::validate_graph(&graph).is_ok());
}

#[test]
fn graph_texts_are_bounded() {
    let long = "x".repeat(201);
    let found = problems(&format!("{{name: {long}, nodes: [{{id: a, agent: {{role: {long}}}}}]}}"));
    assert_eq!(
        found,
        ["name: is longer than 200 characters", "nodes[0].agent.role: is longer than 200 characters"]
    );
    let goal = "x".repeat(65 * 1024);
    let found = problems(&format!("{{name: g, nodes: [{{id: a, task: {{goal: {goal}}}}}]}}"));
    assert_eq!(found, ["nodes[0]: is 65 KiB large, at most 64 KiB are allowed"]);
}

#[test]
fn oversized_graph_differs_from_invalid() {
    let nodes: Vec<String> = (0..=MAX_NODES).map(|n| format!("{{\"id\":\"n{n}\"}}")).collect();
    let graph = serde_json::from_str(&format!(r#"{{"name":"g","nodes":[{}]}}"#, nodes.join(","))).unwrap();
    let invalid = crate::graph::validate_graph(&graph).unwrap_err();
    assert!(matches!(invalid, crate::graph::InvalidGraph::TooLarge(_)), "{invalid:?}");
    let edges = MAX_EDGES / 1_000 + 1;
    let mut nodes: Vec<String> = (0..1_000).map(|n| format!("{{\"id\":\"n{n}\"}}")).collect();
    let parents: Vec<String> = (0..1_000).map(|n| format!("\"n{n}\"")).collect();
    let parents = parents.join(",");
    nodes.extend((0..edges).map(|n| format!("{{\"id\":\"m{n}\",\"parents\":[{parents}]}}")));
    let graph = serde_json::from_str(&format!(r#"{{"name":"g","nodes":[{}]}}"#, nodes.join(","))).unwrap();
    let invalid = crate::graph::validate_graph(&graph).unwrap_err();
    assert_eq!(invalid.to_string(), "nodes: there are 201000 edges, at most 200000 are allowed");
}

#[test]
fn graph_problems_stop_at_fifty() {
    let nodes: Vec<String> = (0..70).map(|n| format!("{{id: n{n}, parents: [missing]}}")).collect();
    let found = problems(&format!("{{name: g, nodes: [{}]}}", nodes.join(", ")));
    assert_eq!((found.len(), found[50].as_str()), (51, "and 20 more problems"));
}

#[test]
fn first_transition_holds_whole_graph() {
    let bench = GraphFixture::created("{name: g, description: d, nodes: [{id: a}]}");
    let created = bench.change().created.as_ref().unwrap();
    assert_eq!((created.graph.nodes.len(), bench.graph().revision), (1, 1));
    assert_eq!((bench.state.state.as_str(), bench.graph().description.as_str()), ("running", "d"));
}

#[test]
fn graph_patterns_share_one_limit() {
    let with = |count: usize| {
        let node = |n| {
            format!(r#"{{"id":"n{n}","parents":[{{"node":"a","if":"results['a'].matches('a{{20}}b')"}}]}}"#)
        };
        let nodes: Vec<String> = (0..count).map(node).collect();
        let graph = format!(r#"{{"name":"g","nodes":[{{"id":"a"}},{}]}}"#, nodes.join(","));
        crate::graph::validate_graph(&serde_json::from_str(&graph).unwrap())
    };
    assert_eq!(with(50), Ok(()));
    let invalid = with(1_500).unwrap_err();
    assert!(matches!(invalid, crate::graph::InvalidGraph::TooLarge(_)), "{invalid:?}");
    assert!(invalid.to_string().ends_with("the patterns of all matches() need more than 8 MiB together"));
}
