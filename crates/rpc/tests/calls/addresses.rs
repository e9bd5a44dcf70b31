//! Allowed addresses of executors. The network is a double: it records every dialled address, and connects
//! to an executor on loopback in any case.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use millstream_model::network_policy::NetworkPolicy;
use millstream_rpc::client::{
    CallFailure, ExecutorClientOptions, ExecutorClients, ExecutorNetwork, ExecutorOrigin, ExecutorTarget,
};
use millstream_rpc::proto::ExecuteNodeResponse;
use millstream_workflow::graph::NodeStatus;
use tokio::net::TcpStream;
use tonic::Code;

use crate::executor::{RunningServer, in_time, request, serve};

#[derive(Debug)]
struct FakeNetwork {
    /// Consecutive DNS answers; the last one repeats.
    answers: Mutex<VecDeque<Vec<SocketAddr>>>,
    dialled: Mutex<Vec<Vec<SocketAddr>>>,
    executor: SocketAddr,
}

#[tonic::async_trait]
impl ExecutorNetwork for FakeNetwork {
    async fn resolve(&self, _host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut answers = self.answers.lock().unwrap();
        Ok(if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() })
    }

    async fn dial(&self, addresses: Vec<SocketAddr>) -> Result<TcpStream, Box<dyn Error + Send + Sync>> {
        self.dialled.lock().unwrap().push(addresses);
        Ok(TcpStream::connect(self.executor).await?)
    }
}

struct NetworkFixture {
    _executor: RunningServer,
    network: Arc<FakeNetwork>,
    executors: ExecutorClients,
}

async fn world(answers: &[&[&str]], allow: &[&str]) -> NetworkFixture {
    let executor = serve(|_| async { Ok(ExecuteNodeResponse::default()) }).await;
    let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
    let network = Arc::new(FakeNetwork {
        answers: Mutex::new(answers.iter().map(parse).collect()),
        dialled: Mutex::default(),
        executor: executor.address,
    });
    let policy = NetworkPolicy::allowing_networks(allow.iter().map(|net| net.parse().unwrap()).collect());
    let options = ExecutorClientOptions { policy, ..ExecutorClientOptions::default() };
    NetworkFixture {
        _executor: executor,
        executors: ExecutorClients::on_network(options, network.clone()),
        network,
    }
}

impl NetworkFixture {
    async fn call(&self, executor: &ExecutorTarget) -> Result<ExecuteNodeResponse, CallFailure> {
        self.executors.execute_node(executor, request(), in_time()).await
    }

    fn dialled(&self) -> Vec<Vec<String>> {
        let dialled = self.network.dialled.lock().unwrap();
        dialled.iter().map(|addresses| addresses.iter().map(ToString::to_string).collect()).collect()
    }
}

#[tokio::test]
async fn forbidden_address_is_never_dialled() {
    let world = world(&[&["127.0.0.1:6379"]], &[]).await;
    for url in [
        "http://127.0.0.1:6379",
        "http://[::1]:6379",
        "http://[::ffff:127.0.0.1]:6379",
        "http://10.0.0.1:80",
        "http://169.254.169.254:80",
        "http://168.63.129.16:80",
        "http://localhost:6379",
        "http://0x7f.1:6379",
    ] {
        let failure = world.call(&ExecutorTarget::registered(url)).await.unwrap_err();
        assert!(
            matches!(&failure, CallFailure::Unreachable(why) if why.contains("not allowed")),
            "{failure}"
        );
    }
    assert_eq!(world.dialled(), [] as [Vec<String>; 0]);
}

#[tokio::test]
async fn only_allowed_addresses_are_dialled() {
    let world = world(&[&["10.0.0.1:7000", "93.184.216.34:7000", "[::1]:7000"]], &[]).await;
    world.call(&ExecutorTarget::registered("http://mixed.example:7000")).await.unwrap();
    assert_eq!(world.dialled(), [["93.184.216.34:7000"]]);
}

#[tokio::test]
async fn dns_rebinding_is_prevented() {
    let world = world(&[&["93.184.216.34:7000"], &["127.0.0.1:7000"]], &[]).await;
    let executor = ExecutorTarget::registered("http://rebinding.example:7000");
    world.call(&executor).await.unwrap();
    world.executors.forget_executor(&executor);
    world.call(&executor).await.unwrap_err();
    assert_eq!(world.dialled(), [["93.184.216.34:7000"]]);
}

#[tokio::test]
async fn allowed_network_is_dialled() {
    let world = world(&[&["10.1.2.3:7000"]], &["10.1.0.0/16"]).await;
    world.call(&ExecutorTarget::registered("http://inside.example:7000")).await.unwrap();
    world.call(&ExecutorTarget::registered("http://10.1.9.9:7000")).await.unwrap();
    world.call(&ExecutorTarget::registered("http://10.2.0.1:7000")).await.unwrap_err();
    assert_eq!(world.dialled(), [["10.1.2.3:7000"], ["10.1.9.9:7000"]]);
}

#[tokio::test]
async fn configured_trust_excludes_registered_executor() {
    let world = world(&[&["127.0.0.1:7000"]], &[]).await;
    let url = "http://10.0.0.1:7000";
    world.call(&ExecutorTarget::configured(url)).await.unwrap();
    world.call(&ExecutorTarget::registered(url)).await.unwrap_err();
    assert_eq!(world.dialled(), [["10.0.0.1:7000"]]);
}

#[test]
fn tenant_sees_uniform_call_failures() {
    let secret = || "what is behind it".to_owned();
    let unimplemented = CallFailure::Refused { code: Code::Unimplemented, message: secret() };
    let unreachable = [CallFailure::Unreachable(secret()), CallFailure::Garbage(secret()), unimplemented];
    for failure in &unreachable {
        assert_eq!(failure.node_status(), NodeStatus::InfraError, "{failure}");
        let shown = failure.shown_to_tenant(ExecutorOrigin::Registered);
        assert_eq!(shown, "the executor could not be reached", "{failure}");
    }
    let refused = |code| CallFailure::Refused { code, message: secret() };
    for failure in [CallFailure::Crashed(secret()), refused(Code::Internal), refused(Code::Unauthenticated)] {
        let shown = failure.shown_to_tenant(ExecutorOrigin::Registered);
        assert!(!shown.contains(&secret()), "{shown}");
    }
}
