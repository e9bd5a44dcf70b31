//! Test executors: a real server with a function inside, and scripted sockets.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millstream_rpc::client::{CallFailure, ExecutorClients, ExecutorTarget};
use millstream_rpc::proto::node_service_server::{NodeService, NodeServiceServer};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

pub(crate) type ExecutorReply = Result<ExecuteNodeResponse, Status>;
type ExecutorReplyFuture = Pin<Box<dyn Future<Output = ExecutorReply> + Send>>;
type ExecutorBehaviour = Arc<dyn Fn(Request<ExecuteNodeRequest>) -> ExecutorReplyFuture + Send + Sync>;

pub(crate) struct ScriptedExecutor(ExecutorBehaviour);

#[tonic::async_trait]
impl NodeService for ScriptedExecutor {
    async fn execute_node(
        &self,
        request: Request<ExecuteNodeRequest>,
    ) -> Result<Response<ExecuteNodeResponse>, Status> {
        (self.0)(request).await.map(Response::new)
    }
}

/// A server that runs until it is dropped.
pub(crate) struct RunningServer {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl RunningServer {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An executor that answers with `behave`.
pub(crate) async fn serve<F, R>(behave: F) -> RunningServer
where
    F: Fn(Request<ExecuteNodeRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = ExecutorReply> + Send + 'static,
{
    serve_on(listen().await, behave)
}

pub(crate) fn serve_on<F, R>(listener: TcpListener, behave: F) -> RunningServer
where
    F: Fn(Request<ExecuteNodeRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = ExecutorReply> + Send + 'static,
{
    let address = listener.local_addr().unwrap();
    let service = service(behave);
    let task = tokio::spawn(async move {
        let incoming = TcpListenerStream::new(listener);
        Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
    });
    RunningServer { address, task }
}

pub(crate) fn service<F, R>(behave: F) -> NodeServiceServer<ScriptedExecutor>
where
    F: Fn(Request<ExecuteNodeRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = ExecutorReply> + Send + 'static,
{
    let behave: ExecutorBehaviour =
        Arc::new(move |request| -> ExecutorReplyFuture { Box::pin(behave(request)) });
    NodeServiceServer::new(ScriptedExecutor(behave))
}

/// A socket that runs `act` for every connection.
pub(crate) async fn raw<F, R>(act: F) -> RunningServer
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
    RunningServer { address, task }
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
    ExecutorClients::default().execute_node(&trusted(url), request(), in_time()).await
}
