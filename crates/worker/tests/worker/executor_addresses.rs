//! Self-registered executors at addresses that a worker must not connect to, or that are not executors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_model::id::{Name, TenantId};
use millstream_model::network_policy::NetworkPolicy;
use millstream_store::executor_store::RegisteredExecutor;
use millstream_store::graph_store::NodeView;
use millstream_worker::WorkerOptions;
use millstream_workflow::graph::NodeStatus;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::bench::WorkerBench;
use crate::graphs::{create, ended};

/// An internal service, which reveals something about itself to every connection.
async fn service() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"-ERR the secrets of this house\r\n").await;
            let _ = stream.shutdown().await;
        }
    });
    (address, connections)
}

/// A node sent to the executor that a tenant registered.
async fn performed_at(address: &str, networks: NetworkPolicy) -> NodeView {
    let bench = WorkerBench::new();
    let executor = RegisteredExecutor {
        tenant: TenantId::default_tenant(),
        name: Name::parse("mine").unwrap(),
        address: address.to_owned(),
        roles: Default::default(),
        labels: Default::default(),
        capacity: 1,
        load: 0,
    };
    bench.stores.executors.record_executor_heartbeats(&[executor], bench.now()).await.unwrap();
    let options = WorkerOptions { executor_networks: networks, ..bench.options() };
    let _worker = bench.worker_with(options);
    let spec = serde_json::json!({
        "name": "one", "options": {"node": {"retry": {"attempts": 1}}}, "nodes": [{"id": "only"}]
    });
    let graph = create(&bench, "one", spec).await;
    let (_, mut nodes) = ended(&bench, &graph).await;
    nodes.remove("only").unwrap()
}

#[tokio::test]
async fn worker_refuses_forbidden_executor_address() {
    let (address, connections) = service().await;
    let node = performed_at(&address, NetworkPolicy::default()).await;
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    assert_eq!(node.status, NodeStatus::InfraError, "{node:?}");
    assert!(format!("{node:?}").contains("the executor could not be reached"), "{node:?}");
    assert!(!format!("{node:?}").contains("loopback"), "{node:?}");
}

#[tokio::test]
async fn node_hides_service_at_executor_address() {
    let (address, connections) = service().await;
    let allowed = NetworkPolicy::allowing_networks(vec!["127.0.0.0/8".parse().unwrap()]);
    let node = performed_at(&address, allowed).await;
    assert!(connections.load(Ordering::SeqCst) > 0);
    let shown = format!("{node:?}");
    for leak in ["frame", "pipe", "refused", "closed", "h2", "protocol", "secrets", &address] {
        assert!(!shown.contains(leak), "{leak}: {shown}");
    }
}
