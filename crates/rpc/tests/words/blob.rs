//! The stored form of a graph.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use millstream_model::raw::RawJson;
use millstream_rpc::blob::{decode, decode_head, encode};
use millstream_workflow::graph::{
    Graph, GraphEdge, GraphOptions, GraphParts, NodeAgent, NodeOnFailure, NodeOptions, NodeParts, NodeSpec,
    NodeStatus, NodeTask,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arbitrary::{self, node_id};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn stored_graphs_round_trip(graph in arbitrary::graph()) {
        let bytes = encode(&graph);
        prop_assert_eq!(decode(&bytes), Ok(graph.clone()));
        let head = decode_head(&bytes).unwrap();
        prop_assert_eq!((head.name, head.input, head.options), (graph.name, graph.input, graph.options));
    }

    #[test]
    fn random_graph_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = decode_head(&bytes);
    }

    #[test]
    fn damaged_graph_bytes_never_panic(
        graph in arbitrary::graph(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&graph);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode(&bytes);
        let _ = decode(&bytes[..cut.index(bytes.len())]);
    }
}

#[test]
fn graph_bytes_need_a_head() {
    let error = decode(&[]).unwrap_err();
    assert_eq!(error.to_string(), "the stored graph cannot be read: it has no head");
}

#[test]
fn corrupt_graph_error_names_field() {
    let mut graph = wide(3);
    let mut bytes = encode(&graph);
    // A second node without any field.
    bytes.extend([0x12, 0x00]);
    let error = decode(&bytes).unwrap_err();
    assert!(error.why.contains("nodes[3].node: is missing"), "{error}");
    graph.input = RawJson::from_trusted_text("{");
    let error = decode(&encode(&graph)).unwrap_err();
    assert!(error.why.contains("input_json: not valid JSON"), "{error}");
}

#[test]
fn deep_stored_values_stay_readable() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let mut graph = wide(1);
    graph.input = RawJson::from_trusted_text(deep);
    assert_eq!(decode(&encode(&graph)), Ok(graph));
}

/// Prints the cost; a release build asserts its bound.
#[test]
fn encodes_10_000_nodes_in_milliseconds() {
    let graph = wide(10_000);
    let best = |work: &dyn Fn()| {
        let times = (0..10).map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        });
        times.min().unwrap()
    };
    let bytes = encode(&graph);
    let written = best(&|| drop(encode(&graph)));
    let read = best(&|| drop(decode(&bytes).unwrap()));
    println!("{} bytes, written in {written:?}, read in {read:?}", bytes.len());
    if !cfg!(debug_assertions) {
        assert!(written.as_millis() < 20, "{written:?}");
    }
}

/// Layers of a hundred nodes, each with two parents in the previous layer.
fn wide(count: usize) -> Graph {
    let parents = |number: usize| match number.checked_sub(100) {
        Some(above) => BTreeSet::from([above, above / 100 * 100]),
        None => BTreeSet::new(),
    };
    let node = |number: usize| {
        let edges =
            parents(number).into_iter().map(|from| GraphEdge { from: node_id(from), condition: None });
        let spec = NodeSpec {
            id: node_id(number),
            parents: edges.collect(),
            agent: NodeAgent { role: "planner".into(), ..NodeAgent::default() },
            task: NodeTask { goal: format!("do the work of number {number}"), ..NodeTask::default() },
            options: NodeOptions::default(),
            on_failure: NodeOnFailure::Skip,
            is_final: false,
            fan_out: None,
            graph: None,
            execution: None,
        };
        NodeParts {
            spec: Arc::new(spec),
            status: NodeStatus::Pending,
            attempt: 0,
            why: None,
            kept: None,
            avoid: Vec::new(),
            of: None,
            instances: None,
        }
    };
    Graph::from_parts(GraphParts {
        name: "wide".into(),
        description: String::new(),
        creator: None,
        input: RawJson::null(),
        options: GraphOptions::default(),
        revision: 1,
        nodes: (0..count).map(node).collect(),
    })
}
