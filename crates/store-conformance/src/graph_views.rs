//! Views of the nodes of graphs: filters, pages, counts.

use millstream_model::status::ExecutionPhase;
use millstream_store::graph_store::{GraphCounts, NodeFilter};
use millstream_workflow::graph::NodeStatus;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{execution, execution_of, name};
use crate::graph::{ids, node, passed, rows, running};

pub async fn nodes_are_paged_by_id(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = ["b", "b.1", "b-1", "a", "c", "b.0"].map(|id| node(id, &[], &[])).to_vec();
    bench.start_graph(&key, nodes).await;
    bench.start_graph(&execution_of("other", "g"), vec![node("x", &[], &[])]).await;
    let views = &bench.stores.graph_views;
    let all = NodeFilter::default();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = views.list_nodes(&key, &all, after.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2);
        after = Some(last.node.clone());
        seen.extend(page.into_iter().map(|view| view.node.to_string()));
    }
    assert_eq!(seen, ["a", "b", "b-1", "b.0", "b.1", "c"]);
    assert_eq!(ids(&bench.nodes(&execution_of("other", "g")).await), ["x"]);
}

pub async fn nodes_filter_by_status_and_id(bench: ConformanceBench) {
    let key = execution("g");
    let nodes = ["a", "b", "c", "d"].map(|id| node(id, &[], &[])).to_vec();
    bench.graph_with(&key, nodes, vec![running("a"), passed("b", "1"), running("d")]).await;
    let find = async |statuses: &[NodeStatus], wanted: &[&str], after: Option<&str>, limit| {
        let filter =
            NodeFilter { statuses: statuses.to_vec(), ids: wanted.iter().map(|id| name(id)).collect() };
        let after = after.map(name);
        let found = bench.stores.graph_views.list_nodes(&key, &filter, after.as_ref(), limit).await.unwrap();
        found.iter().map(|view| view.node.to_string()).collect::<Vec<_>>()
    };
    let (run, pass) = (NodeStatus::Running, NodeStatus::Pass);
    assert_eq!(find(&[run], &[], None, 9).await, ["a", "d"]);
    assert_eq!(find(&[run, pass], &[], None, 2).await, ["a", "b"]);
    assert_eq!(find(&[run, pass], &[], Some("b"), 2).await, ["d"]);
    assert_eq!(find(&[], &["d", "missing", "b", "b"], None, 9).await, ["b", "d"], "each once, in order");
    assert_eq!(find(&[run], &["d", "b"], None, 9).await, ["d"]);
    assert_eq!(find(&[], &["a", "b", "d"], Some("a"), 1).await, ["b"]);
    assert_eq!(find(&[NodeStatus::Crash], &[], None, 9).await, Vec::<String>::new());
}

pub async fn unfinished_graphs_are_counted_with_nodes(bench: ConformanceBench) {
    let counts = async || bench.stores.graph_views.graph_counts().await.unwrap();
    assert_eq!(counts().await, GraphCounts::default());
    bench.start(&execution("machine")).await;
    let (one, other) = (execution("one"), execution_of("other", "two"));
    let two = || vec![node("a", &[], &[]), node("b", &[], &[])];
    let state = bench.graph_with(&one, two(), vec![running("a")]).await;
    bench.start_graph(&other, two()).await;
    let (pending, run) = (NodeStatus::Pending, NodeStatus::Running);
    assert_eq!(counts().await, GraphCounts { active: 2, nodes: [(pending, 3), (run, 1)].into() });

    let last = bench.post(&one, "close").await;
    let changes = rows(vec![passed("a", "1"), passed("b", "1")]);
    let end = ConformanceVisit::to(&one, &state, bench.now().await)
        .end(last, "closed", ExecutionPhase::Completed)
        .graph(changes);
    bench.commit_done(end).await;
    assert_eq!(counts().await, GraphCounts { active: 1, nodes: [(pending, 2)].into() });
}
