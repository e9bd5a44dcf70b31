//! The stored form of a graph.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::graph::{
    Agent, Edge, Graph, GraphOptions, NodeOptions, NodeParts, NodeSpec, NodeStatus, OnFailure, Parts, Task,
};
use millstream_core::raw::RawJson;
use millstream_rpc::blob::{decode, encode, head};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arbitrary::{self, node_id};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read_back(graph in arbitrary::graph()) {
        let bytes = encode(&graph);
        prop_assert_eq!(decode(&bytes), Ok(graph.clone()));
        let head = head(&bytes).unwrap();
        prop_assert_eq!((head.name, head.input, head.options), (graph.name, graph.input, graph.options));
    }

    #[test]
    fn hostile_bytes_are_an_error_at_most(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = head(&bytes);
    }

    #[test]
    fn damaged_bytes_are_an_error_at_most(
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
fn bytes_without_a_head_are_no_graph() {
    let error = decode(&[]).unwrap_err();
    assert_eq!(error.to_string(), "the stored graph cannot be read: it has no head");
}

#[test]
fn says_where_stored_nodes_are_wrong() {
    let mut graph = wide(3);
    let mut bytes = encode(&graph);
    // A second node without any field.
    bytes.extend([0x12, 0x00]);
    let error = decode(&bytes).unwrap_err();
    assert!(error.why.contains("nodes[3].node: is missing"), "{error}");
    graph.input = RawJson::trusted("{");
    let error = decode(&encode(&graph)).unwrap_err();
    assert!(error.why.contains("input_json: not valid JSON"), "{error}");
}

#[test]
fn values_deeper_than_we_would_accept_today_can_still_be_read() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let mut graph = wide(1);
    graph.input = RawJson::trusted(deep);
    assert_eq!(decode(&encode(&graph)), Ok(graph));
}

/// Prints the cost; a release build asserts its bound.
#[test]
fn ten_thousand_nodes_are_written_in_milliseconds() {
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
        let edges = parents(number).into_iter().map(|from| Edge { from: node_id(from), condition: None });
        let spec = NodeSpec {
            id: node_id(number),
            parents: edges.collect(),
            agent: Agent { role: "planner".into(), ..Agent::default() },
            task: Task { goal: format!("do the work of number {number}"), ..Task::default() },
            options: NodeOptions::default(),
            on_failure: OnFailure::Skip,
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
    Graph::assemble(Parts {
        name: "wide".into(),
        description: String::new(),
        creator: None,
        input: RawJson::null(),
        options: GraphOptions::default(),
        revision: 1,
        nodes: (0..count).map(node).collect(),
    })
}
