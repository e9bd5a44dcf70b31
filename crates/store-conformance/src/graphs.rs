//! Graphs beside the log: rows written by starts and commits, and their loads.

use millstream_model::id::Seq;
use millstream_store::event_log::{AppendRequest, Appended};
use millstream_store::execution_store::{CachedVersion, CommitVerdict};
use millstream_store::graph_store::{GraphRows, NodeWrite};
use millstream_workflow::graph::NodeStatus;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{execution, execution_of, name, raw};
use crate::graph::{METADATA, blob, change, ids, instance, new_graph, node, passed, rows, running, told};

pub async fn graph_start_writes_all_nodes(bench: ConformanceBench) {
    let key = execution("g");
    bench.start_graph(&key, vec![node("b", &["a"], &[]), node("a", &[], &["b"])]).await;
    let graph = bench.graph(&key).await;
    assert_eq!((graph.execution.clone(), graph.metadata.as_str()), (key.clone(), METADATA));
    assert_eq!((graph.revision, graph.blob, graph.snapshot_seq), (1, blob(&[1]), Seq::FIRST));
    assert_eq!(graph.nodes, [(NodeStatus::Pending, 2)].into());
    let nodes = bench.nodes(&key).await;
    assert_eq!(ids(&nodes), ["a", "b"], "by id");
    let b = &nodes[1];
    assert_eq!(b.spec.as_str(), r#"{"id":"b","parents":["a"],"task":{"goal":"do b"}}"#);
    assert_eq!((b.status, b.attempt, b.seq), (NodeStatus::Pending, 0, Seq::FIRST));
    assert_eq!((nodes[0].children.clone(), b.children.clone()), (vec![name("b")], vec![]));
    assert!(b.executor.is_none() && b.started_at.is_none() && b.result.is_none() && b.why.is_none());
    assert_eq!(told(&bench.feed(&key).await), ["1-1"]);
}

pub async fn repeated_graph_start_writes_nothing(bench: ConformanceBench) {
    let key = execution("g");
    let first = new_graph(&bench, &key, vec![node("a", &[], &[])]).await;
    bench.start_as(first.clone()).await;
    let again = new_graph(&bench, &key, vec![node("a", &[], &[]), node("b", &[], &[])]).await;
    let mut other = again.clone();
    other.input_hash = [8; 32];
    let batch = [first, again, other].map(|start| AppendRequest::Start(Box::new(start)));
    for (at, verdict) in bench.append(&batch).await.into_iter().enumerate() {
        assert!(
            matches!((at, &verdict), (0 | 1, Appended::Repeat { .. }) | (2, Appended::Mismatch)),
            "{verdict:?}"
        );
    }
    assert_eq!(ids(&bench.nodes(&key).await), ["a"]);
    assert_eq!(told(&bench.feed(&key).await), ["1-1"]);
}

pub async fn duplicate_graph_start_is_one_graph(bench: ConformanceBench) {
    let (one, other) = (execution("one"), execution("other"));
    let first = new_graph(&bench, &one, vec![node("a", &[], &[])]).await;
    let second = new_graph(&bench, &one, vec![node("b", &[], &[])]).await;
    let third = new_graph(&bench, &other, vec![node("a", &[], &[]), node("c", &[], &[])]).await;
    let verdicts =
        bench.append(&[first, second, third].map(|start| AppendRequest::Start(Box::new(start)))).await;
    assert!(matches!(verdicts[1], Appended::Repeat { .. }), "{verdicts:?}");
    assert_eq!(ids(&bench.nodes(&one).await), ["a"]);
    assert_eq!(ids(&bench.nodes(&other).await), ["a", "c"]);
}

pub async fn ten_thousand_nodes_start_in_one_call(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = (0..10_000).map(|n| node(&format!("n{n:05}"), &[], &[])).collect();
    bench.start_graph(&key, nodes).await;
    assert_eq!(bench.graph(&key).await.nodes, [(NodeStatus::Pending, 10_000)].into());
    assert_eq!(
        bench.node(&key, "n09999").await.spec.as_str(),
        node("n09999", &[], &[]).spec.unwrap().as_str()
    );
}

pub async fn commit_changes_only_written_node_fields(bench: ConformanceBench) {
    let key = execution("g");
    let now = bench.now().await;
    let state = bench.start_graph(&key, vec![node("a", &[], &["b"]), node("b", &["a"], &[])]).await;
    let begun = NodeWrite {
        seq: Seq(2),
        why: Some("it has no parents".to_owned()),
        started_at: Some(now),
        ..running("a")
    };
    let state = bench.change_graph(&key, &state, rows(vec![begun])).await;
    let a = bench.node(&key, "a").await;
    assert_eq!((a.status, a.attempt, a.seq, a.started_at), (NodeStatus::Running, 1, Seq(2), Some(now)));
    assert_eq!((a.why.as_deref(), a.children), (Some("it has no parents"), vec![name("b")]));

    let error = Some("no\0no".to_owned());
    let failed = NodeWrite { error, ended_at: Some(now), ..change("a", NodeStatus::Fail, 2) };
    let state = bench.change_graph(&key, &state, rows(vec![failed])).await;
    let a = bench.node(&key, "a").await;
    assert_eq!((a.status, a.attempt, a.why.clone()), (NodeStatus::Fail, 2, None), "why is always written");
    assert_eq!((a.started_at, a.ended_at), (Some(now), Some(now)));
    assert!(a.error.as_deref().is_some_and(|text| text.starts_with("no")), "{:?}", a.error);
    let result = r#"{"n":  1.50}"#;
    bench.change_graph(&key, &state, rows(vec![passed("a", result)])).await;
    let a = bench.node(&key, "a").await;
    assert_eq!((a.result, a.ended_at, a.error.is_some()), (Some(raw(result)), Some(now), true));
    assert_eq!(a.spec.as_str(), node("a", &[], &[]).spec.unwrap().as_str());
    let b = bench.node(&key, "b").await;
    assert_eq!((b.status, b.seq), (NodeStatus::Pending, Seq::FIRST), "unchanged by this commit");
}

pub async fn lost_commit_writes_no_graph_rows(bench: ConformanceBench) {
    let (key, other) = (execution("g"), execution("won"));
    let state = bench.start_graph(&key, vec![node("a", &[], &[])]).await;
    let won = bench.start_graph(&other, vec![node("a", &[], &[])]).await;
    let (lost, event) = (bench.post(&key, "go").await, bench.post(&other, "go").await);
    let changes = || GraphRows {
        revision: 9,
        blob: Some(blob(&[9])),
        deleted: vec![name("a")],
        ..rows(vec![node("b", &[], &[])])
    };
    let now = bench.now().await;
    let losing =
        ConformanceVisit::to(&key, &state, now).apply(lost, "working").graph(changes()).expecting(Seq(7));
    let winning = ConformanceVisit::to(&other, &won, now).apply(event, "working").graph(changes());
    let verdicts = bench.commit(vec![losing, winning], crate::fixture::grant(0)).await;
    assert!(matches!(verdicts[..], [CommitVerdict::Conflict, CommitVerdict::Done { .. }]), "{verdicts:?}");
    let graph = bench.graph(&key).await;
    assert_eq!((graph.revision, graph.blob), (1, blob(&[1])));
    assert_eq!(ids(&bench.nodes(&key).await), ["a"]);
    assert_eq!(told(&bench.feed(&key).await), ["1-1"]);
    assert_eq!((bench.graph(&other).await.revision, ids(&bench.nodes(&other).await)), (9, vec!["b"]));
}

pub async fn graph_edits_insert_update_delete_nodes(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = vec![node("a", &[], &["b"]), node("b", &["a"], &[]), node("c", &[], &[])];
    let state = bench.start_graph(&key, nodes).await;
    let ended = NodeWrite { why: Some("because".to_owned()), ..passed("c", "1") };
    let state = bench.change_graph(&key, &state, rows(vec![ended])).await;
    let edited = NodeWrite { seq: Seq(3), ..node("b", &["a", "c"], &["d"]) };
    let edits = GraphRows {
        revision: 2,
        deleted: vec![name("c")],
        ..rows(vec![edited, node("d", &["b"], &[]), node("c", &[], &[])])
    };
    let state = bench.change_graph(&key, &state, edits).await;
    assert_eq!(bench.graph(&key).await.revision, 2);
    assert_eq!(ids(&bench.nodes(&key).await), ["a", "b", "c", "d"]);
    let (b, c) = (bench.node(&key, "b").await, bench.node(&key, "c").await);
    assert_eq!(b.spec.as_str(), node("b", &["a", "c"], &[]).spec.unwrap().as_str());
    assert_eq!((b.seq, b.children), (Seq(3), vec![name("d")]));
    assert_eq!((c.status, c.result, c.why), (NodeStatus::Pending, None, None), "another node by the same id");
    let edits = GraphRows { revision: 3, deleted: vec![name("d"), name("missing")], ..rows(vec![]) };
    bench.change_graph(&key, &state, edits).await;
    assert_eq!(ids(&bench.nodes(&key).await), ["a", "b", "c"]);
}

pub async fn instances_know_fan_out_and_item(bench: ConformanceBench) {
    let key = execution("g");
    let instances = vec![instance("f.0", "f", r#"{"i":  0}"#), instance("f.1", "f", "null")];
    bench.graph_with(&key, vec![node("f", &[], &[])], instances).await;
    assert_eq!(bench.node(&key, "f").await.instance, None);
    assert_eq!(bench.node(&key, "f.0").await.instance, Some((name("f"), raw(r#"{"i":  0}"#))));
    assert_eq!(bench.node(&key, "f.1").await.instance, Some((name("f"), raw("null"))));
}

pub async fn graph_blob_loads_with_snapshot(bench: ConformanceBench) {
    let key = execution("g");
    let state = bench.start_graph(&key, vec![node("a", &[], &[])]).await;
    let loaded = bench.load(&key, None).await;
    assert_eq!(loaded.graph, Some(blob(&[1])));
    let known = Some(CachedVersion { position: loaded.position, seq: loaded.seq });
    assert_eq!(bench.load(&key, known).await.graph, None, "the caller has it");

    let state = bench.change_graph(&key, &state, rows(vec![running("a")])).await;
    let loaded = bench.load(&key, known).await;
    assert_eq!((loaded.graph, loaded.snapshot_seq), (Some(blob(&[1])), Seq::FIRST), "that of the snapshot");
    assert_eq!(loaded.state.map(|(_, log)| log.len()), Some(1));

    let large: Vec<u8> = (0..300_000u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let event = bench.post(&key, "go").await;
    let changes = GraphRows { blob: Some(blob(&large)), ..rows(vec![passed("a", "1")]) };
    let visit = ConformanceVisit::to(&key, &state, bench.now().await).apply(event, "working").graph(changes);
    bench.commit_done(visit).await;
    let loaded = bench.load(&key, known).await;
    assert_eq!((loaded.graph.as_deref(), loaded.snapshot_seq), (Some(&large[..]), Seq(3)));
    let graph = bench.graph(&key).await;
    assert_eq!((&graph.blob[..], graph.snapshot_seq), (&large[..], Seq(3)));
}

pub async fn non_graph_execution_has_no_graph(bench: ConformanceBench) {
    let (machine, missing) = (execution("machine"), execution("missing"));
    bench.start(&machine).await;
    let graph = execution("g");
    bench.start_graph(&graph, vec![node("a", &[], &[])]).await;
    assert_eq!(bench.load(&machine, None).await.graph, None);
    let asked = [machine.clone(), graph.clone(), missing, execution_of("other", "g"), graph.clone()];
    let found = bench.stores.graph_views.find_graphs(&asked).await.unwrap();
    let there: Vec<_> = found.iter().map(|view| view.as_ref().map(|view| view.execution.clone())).collect();
    assert_eq!(there, [None, Some(graph.clone()), None, None, Some(graph)], "in the order asked");
    assert!(bench.nodes(&machine).await.is_empty() && bench.feed(&machine).await.is_empty());
}
