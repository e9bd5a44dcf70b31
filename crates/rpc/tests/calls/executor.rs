//! Test executors: a real server with a function inside, and scripted sockets.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millstream_rpc::client::{CallFailure, ExecutorTarget, Executors};
use millstream_rpc::proto::node_service_server::{NodeService, NodeServiceServer};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

pub(crate) type Answer = Result<ExecuteNodeResponse, Status>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;
type Behaviour = Arc<dyn Fn(Request<ExecuteNodeRequest>) -> Answering + Send + Sync>;

pub(crate) struct Executor(Behaviour);

#[tonic::async_trait]
impl NodeService for Executor {
    async fn execute_node(
        &self,
        request: Request<ExecuteNodeRequest>,
    ) -> Result<Response<ExecuteNodeResponse>, Status> {
        (self.0)(request).await.map(Response::new)
    }
}

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An executor that answers with `behave`.
pub(crate) async fn serve<F, R>(behave: F) -> Running
where
    F: Fn(Request<ExecuteNodeRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    serve_on(listen().await, behave)
}

pub(crate) fn serve_on<F, R>(listener: TcpListener, behave: F) -> Running
where
    F: Fn(Request<ExecuteNodeRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let address = listener.local_addr().unwrap();
    let service = service(behave);
    let task = tokio::spawn(async move {
        let incoming = TcpListenerStream::new(listener);
        Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
    });
    Running { address, task }
}

pub(crate) fn service<F, R>(behave: F) -> NodeServiceServer<Executor>
where
    F: Fn(Request<ExecuteNodeRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let behave: Behaviour = Arc::new(move |request| -> Answering { Box::pin(behave(request)) });
    NodeServiceServer::new(Executor(behave))
}

/// A socket that runs `act` for every connection.
pub(crate) async fn raw<F, R>(act: F) -> Running
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(act(stream));
        }
    });
    Running { address, task }
}

pub(crate) async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// A bound address without a listener, reserved for this test.
pub(crate) fn reserved() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

pub(crate) fn request() -> ExecuteNodeRequest {
    ExecuteNodeRequest { workflow_id: "w".into(), node_id: "n".into(), attempt: 1, ..Default::default() }
}

/// Long enough for any machine; no test waits for it.
pub(crate) fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// An executor from the operator's settings: its address is not checked.
pub(crate) fn trusted(url: &str) -> ExecutorTarget {
    ExecutorTarget::configured(url)
}

pub(crate) async fn call(url: &str) -> Result<ExecuteNodeResponse, CallFailure> {
    Executors::default().execute(&trusted(url), request(), in_time()).await
}
