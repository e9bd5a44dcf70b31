//! Dispatches: the executor of a node, and the contents of the request.

use millstream_model::raw::RawJson;
use millstream_store::graph_store::{NodeDispatch, NodeWrite, UpstreamResult};
use millstream_store::node_request::MAX_DOWNSTREAM;
use millstream_workflow::graph::NodeStatus;

use crate::ConformanceBench;
use crate::fixture::{execution, name, raw};
use crate::graph::{change, dispatch, instance, node, passed, rows, running, told};

pub async fn dispatch_is_recorded_and_returns_request(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = vec![
        node("a", &[], &["c"]),
        node("b", &[], &["c"]),
        node("c", &["b", "a"], &["e", "d"]),
        node("d", &["c"], &[]),
        node("e", &["c"], &[]),
    ];
    let failed = change("b", NodeStatus::Fail, 1);
    bench.graph_with(&key, nodes, vec![passed("a", r#"{"n":  1}"#), failed, running("c")]).await;
    let now = bench.now().await;
    let context = bench.context(&key, "c", 1_000).await;
    assert_eq!(context.spec.as_str(), node("c", &["b", "a"], &[]).spec.unwrap().as_str());
    assert!(context.instance.is_none());
    let [b, a] = &context.upstream[..] else { panic!("{:?}", context.upstream) };
    assert_eq!(
        (b.node.as_str(), b.status, b.result.clone(), b.result_bytes),
        ("b", NodeStatus::Fail, None, 0)
    );
    assert_eq!((a.node.as_str(), a.status, a.result_bytes), ("a", NodeStatus::Pass, 9));
    assert_eq!((a.result.clone(), a.instance_of.clone()), (Some(raw(r#"{"n":  1}"#)), None));
    let goals = [(name("d"), "do d".to_owned()), (name("e"), "do e".to_owned())];
    assert_eq!(context.downstream, goals);
    let c = bench.node(&key, "c").await;
    assert_eq!((c.executor.as_deref(), c.executor_reason.as_deref()), (Some("exec-1"), Some("the only one")));
    assert!(c.dispatched_at.is_some_and(|at| at >= now) && c.status == NodeStatus::Running);
    assert!(bench.node(&key, "a").await.executor.is_none());
}

pub async fn only_running_attempt_is_dispatched(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = ["gone", "old", "over", "waits"].map(|id| node(id, &[], &[])).to_vec();
    let changes = vec![running("gone"), change("old", NodeStatus::Running, 2), passed("over", "1")];
    let state = bench.graph_with(&key, nodes, changes).await;
    let deletion = millstream_store::graph_store::GraphRows { deleted: vec![name("gone")], ..rows(vec![]) };
    bench.change_graph(&key, &state, deletion).await;
    let missing = execution("missing");
    let batch = [
        dispatch(&key, "gone", 1),
        dispatch(&key, "old", 1),
        dispatch(&key, "over", 1),
        dispatch(&key, "waits", 0),
        dispatch(&missing, "a", 1),
    ];
    assert!(bench.dispatch(&batch, 10).await.iter().all(Option::is_none));
    assert_eq!(told(&bench.feed(&key).await), ["1-1", "2-2", "3-3"], "nothing to tell");
    for id in ["old", "over", "waits"] {
        assert!(bench.node(&key, id).await.executor.is_none(), "{id}");
    }
    let mixed = bench.dispatch(&[dispatch(&key, "gone", 1), dispatch(&key, "old", 2)], 10).await;
    assert!(mixed[0].is_none() && mixed[1].is_some());
}

pub async fn repeated_dispatch_replaces_the_first(bench: ConformanceBench) {
    let key = execution("g");
    bench.graph_with(&key, vec![node("a", &[], &[])], vec![running("a")]).await;
    bench.context(&key, "a", 0).await;
    let again =
        NodeDispatch { executor: "exec-2".to_owned(), reason: "\0".to_owned(), ..dispatch(&key, "a", 1) };
    bench.dispatch(&[again], 0).await;
    assert_eq!(bench.node(&key, "a").await.executor.as_deref(), Some("exec-2"));
    let twice = [dispatch(&key, "a", 1), dispatch(&key, "a", 1)];
    assert!(bench.dispatch(&twice, 0).await.iter().all(Option::is_some));
}

/// The upstream results that fit, and the sizes of the others.
fn fitting(upstream: &[UpstreamResult]) -> Vec<(&str, bool, usize)> {
    upstream.iter().map(|one| (one.node.as_str(), one.result.is_some(), one.result_bytes)).collect()
}

pub async fn upstream_results_stop_at_byte_limit(bench: ConformanceBench) {
    let key = execution("g");
    let nodes =
        vec![node("a", &[], &[]), node("b", &[], &[]), node("c", &[], &[]), node("d", &["a", "b", "c"], &[])];
    // Bytes count, not characters.
    let changes = vec![passed("a", r#""ää""#), passed("b", "1234"), passed("c", "1"), running("d")];
    bench.graph_with(&key, nodes, changes).await;
    let upstream = async |bytes| bench.context(&key, "d", bytes).await.upstream;
    assert_eq!(fitting(&upstream(11).await), [("a", true, 6), ("b", true, 4), ("c", true, 1)]);
    assert_eq!(fitting(&upstream(10).await), [("a", true, 6), ("b", true, 4), ("c", false, 1)]);
    assert_eq!(fitting(&upstream(9).await), [("a", true, 6), ("b", false, 4), ("c", false, 1)]);
    assert_eq!(fitting(&upstream(0).await), [("a", false, 6), ("b", false, 4), ("c", false, 1)]);
    assert_eq!(fitting(&upstream(usize::MAX).await)[2], ("c", true, 1));
}

pub async fn instances_follow_fan_out_by_number(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = vec![
        node("a", &[], &["f"]),
        node("f", &["a"], &["z"]),
        node("f.x", &[], &[]),
        node("z", &["f", "a"], &[]),
    ];
    let mut changes: Vec<_> = (0..12)
        .map(|n| NodeWrite {
            status: NodeStatus::Pass,
            result: Some(raw(&n.to_string())),
            ..instance(&format!("f.{n}"), "f", "1")
        })
        .collect();
    changes.extend([passed("a", "1"), passed("f", r#"{"count":12}"#), running("z")]);
    bench.graph_with(&key, nodes, changes).await;
    let upstream = bench.context(&key, "z", 1_000).await.upstream;
    let order: Vec<_> = upstream.iter().map(|one| one.node.as_str()).collect();
    let expected: Vec<String> = (0..12).map(|n| format!("f.{n}")).collect();
    assert_eq!(order[0], "f");
    assert_eq!(order[1..13], expected.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(order[13..], ["a"], "an instance without a fan-out is none");
    assert!(upstream[1..13].iter().all(|one| one.instance_of == Some(name("f"))));
    assert_eq!(upstream[11].result, Some(raw("10")));
    assert_eq!(upstream[0].instance_of, None);
}

pub async fn instance_is_dispatched_with_its_item(bench: ConformanceBench) {
    let key = execution("g");
    let instances = vec![NodeWrite { status: NodeStatus::Running, attempt: 1, ..instance("f.0", "f", "7") }];
    bench.graph_with(&key, vec![node("f", &[], &[])], instances).await;
    assert_eq!(bench.context(&key, "f.0", 0).await.instance, Some((name("f"), raw("7"))));
}

pub async fn dispatch_names_at_most_hundred_children(bench: ConformanceBench) {
    let key = execution("g");
    let children: Vec<String> = (0..MAX_DOWNSTREAM + 5).map(|n| format!("c{n:03}")).collect();
    let names: Vec<&str> = children.iter().map(String::as_str).collect();
    let mut nodes = vec![node("a", &[], &names)];
    nodes.extend(names.iter().map(|id| node(id, &["a"], &[])));
    bench.graph_with(&key, nodes, vec![running("a")]).await;
    let downstream = bench.context(&key, "a", 0).await.downstream;
    assert_eq!(downstream.len(), MAX_DOWNSTREAM);
    assert_eq!((downstream[0].0.as_str(), downstream[99].1.as_str()), ("c000", "do c099"));
}

pub async fn dispatch_batch_keeps_its_order(bench: ConformanceBench) {
    let keys: Vec<_> = (0..7).rev().map(|n| execution(&format!("g{n}"))).collect();
    for key in &keys {
        let nodes = vec![node("a", &[], &["b"]), node("b", &["a"], &[])];
        let result = raw(&format!("\"{}\"", key.execution));
        let ended = NodeWrite { result: Some(result), ..passed("a", "1") };
        bench.graph_with(key, nodes, vec![ended, running("b")]).await;
    }
    let mut batch: Vec<_> = keys.iter().map(|key| dispatch(key, "b", 1)).collect();
    batch.insert(3, dispatch(&execution("missing"), "b", 1));
    let contexts = bench.dispatch(&batch, 100).await;
    for (dispatch, context) in batch.iter().zip(&contexts) {
        let result = context.as_ref().and_then(|context| context.upstream[0].result.clone());
        let expected = RawJson::from_value(&dispatch.execution.execution);
        assert_eq!(result, (dispatch.execution != execution("missing")).then_some(expected));
    }
}

pub async fn large_join_returns_fitting_results_and_sizes(bench: ConformanceBench) {
    let key = execution("g");
    let parents: Vec<String> = (0..1_000).map(|n| format!("p{n:04}")).collect();
    let names: Vec<&str> = parents.iter().map(String::as_str).collect();
    let mut nodes: Vec<_> = names.iter().map(|id| node(id, &[], &["join"])).collect();
    nodes.push(node("join", &names, &[]));
    let result = format!("\"{}\"", "x".repeat(16 * 1024 - 2));
    let mut changes: Vec<_> = names.iter().map(|id| passed(id, &result)).collect();
    changes.push(running("join"));
    bench.graph_with(&key, nodes, changes).await;
    let upstream = bench.context(&key, "join", 64 * 1024).await.upstream;
    assert_eq!(upstream.len(), 1_000);
    assert!(upstream.iter().all(|one| one.result_bytes == 16 * 1024));
    let came: Vec<_> =
        upstream.iter().filter(|one| one.result.is_some()).map(|one| one.node.as_str()).collect();
    assert_eq!(came, ["p0000", "p0001", "p0002", "p0003"]);
}
