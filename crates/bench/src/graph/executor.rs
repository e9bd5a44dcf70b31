//! Executor of the measured graphs: a gRPC server in this process that answers `PASS` at once.
//!
//! It runs on a thread of its own, whose CPU time is a role in the report, and registers over HTTP as often
//! as the engine requires. It performs only graphs of its bench: a shared engine may offer it another node,
//! which it refuses, so that the engine picks another executor.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream_rpc::proto::node_service_server::{NodeService, NodeServiceServer};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse, NodeStatus};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::error::{BenchError, BenchResult};
use crate::process;
use crate::wire::{BenchConnection, ServerAddress};

/// Role of its thread in reports.
pub(crate) const EXECUTOR: &str = "executor";

/// Timeout of the deregistration, which must not delay the end of a bench.
const FAREWELL: Duration = Duration::from_secs(2);

/// A running executor; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct BenchExecutor {
    name: String,
    shared: Arc<BenchExecutorState>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    clock: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct BenchExecutorState {
    performed: AtomicU64,
    wrong: Mutex<Option<String>>,
}

/// State of the thread.
struct ExecutorThread {
    engine: ServerAddress,
    name: String,
    /// Contained in the ids of our graphs.
    run: String,
    capacity: u32,
    shared: Arc<BenchExecutorState>,
}

#[derive(Debug, Deserialize)]
struct ExecutorRegistered {
    beat_every: String,
}

impl BenchExecutor {
    /// Starts the executor and waits until the engine knows it. It has the label [`Self::label`], and
    /// performs the nodes of graphs whose id contains `run`.
    pub(crate) async fn start(engine: &ServerAddress, run: &str, capacity: u32) -> BenchResult<Self> {
        let (shared, (stop, stopped), (told, heard)) =
            (Arc::new(BenchExecutorState::default()), watch::channel(false), oneshot::channel());
        let name = format!("bench-{run}");
        let desk = ExecutorThread {
            engine: engine.clone(),
            name: name.clone(),
            run: run.to_owned(),
            capacity,
            shared: shared.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(EXECUTOR.to_owned())
            .spawn(move || {
                let shared = desk.shared.clone();
                if let Err(error) = desk.run_thread(told, stopped) {
                    lock_mutex(&shared.wrong).get_or_insert(error.to_string());
                }
            })
            .map_err(BenchError::machine_error("start the executor's thread"))?;
        let mut executor = Self { name, shared, stop, thread: Some(thread), clock: None };
        let Ok(clock) = heard.await else {
            executor.stop_thread();
            executor.check_error()?;
            return Err(BenchError::Wrong("the executor ended before it began".to_owned()));
        };
        executor.clock = clock;
        Ok(executor)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The label that nodes require so that only this executor gets them.
    pub(crate) fn label(&self) -> &str {
        &self.name
    }

    /// Nodes performed so far, repeated ones included.
    pub(crate) fn performed_nodes(&self) -> u64 {
        self.shared.performed.load(Ordering::Relaxed)
    }

    /// Path of the thread's CPU clock, where the platform has one.
    pub(crate) fn cpu_clock(&self) -> Option<&PathBuf> {
        self.clock.as_ref()
    }

    /// The error that stopped it, if any.
    pub(crate) fn check_error(&self) -> BenchResult<()> {
        match &*lock_mutex(&self.shared.wrong) {
            Some(text) => Err(BenchError::Wrong(format!("the executor: {text}"))),
            None => Ok(()),
        }
    }

    fn stop_thread(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // [`BenchExecutor::check_error`] reports its error.
            let _ = thread.join();
        }
    }
}

impl Drop for BenchExecutor {
    fn drop(&mut self) {
        self.stop_thread();
    }
}

impl ExecutorThread {
    /// Serves until it is stopped; sends the path of its CPU clock when the engine knows it.
    fn run_thread(
        self,
        told: oneshot::Sender<Option<PathBuf>>,
        mut stopped: watch::Receiver<bool>,
    ) -> BenchResult<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BenchError::machine_error("start the executor's runtime"))?;
        runtime.block_on(async {
            let listener = self.bind_listener().await?;
            let address =
                listener.local_addr().map_err(BenchError::machine_error("open the executor's port"))?;
            let service =
                NodeServiceServer::new(NoopPerformer { run: self.run.clone(), shared: self.shared.clone() });
            let serving = tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            let mut line = BenchConnection::to_server(&self.engine);
            let outcome = tokio::select! {
                ended = serving => Err(BenchError::Wrong(format!("it stopped serving: {ended:?}"))),
                ended = self.register_repeatedly(&mut line, address, told) => ended,
                // A closed channel means that the executor was dropped.
                _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
            };
            let retire = format!("/v1/executors/{}/retire", self.name);
            // An engine that is down has no list of executors.
            let _ = tokio::time::timeout(FAREWELL, line.post(&retire, "application/json", b"", &[204])).await;
            outcome
        })
    }

    /// Local address that the engine can reach: loopback, or the network interface towards another machine.
    async fn bind_listener(&self) -> BenchResult<TcpListener> {
        let way = TcpStream::connect(self.engine.authority())
            .await
            .map_err(|error| BenchError::unreachable(self.engine.url(), error))?;
        let here = way.local_addr().map_err(BenchError::machine_error("open the executor's port"))?.ip();
        TcpListener::bind((here, 0)).await.map_err(BenchError::machine_error("open the executor's port"))
    }

    /// Registers again and again.
    async fn register_repeatedly(
        &self,
        line: &mut BenchConnection,
        address: SocketAddr,
        told: oneshot::Sender<Option<PathBuf>>,
    ) -> BenchResult<()> {
        let word = format!(
            "{{\"name\":\"{0}\",\"address\":\"http://{address}\",\"roles\":[\"{0}\"],\"labels\":[\"{0}\"],\"capacity\":{1}}}",
            self.name, self.capacity
        );
        let mut told = Some(told);
        loop {
            let answer = line.post("/v1/executors", "application/json", word.as_bytes(), &[200]).await?;
            if let Some(told) = told.take() {
                let _ = told.send(process::this_thread());
            }
            tokio::time::sleep(beat_every(&answer)?).await;
        }
    }
}

fn beat_every(answer: &[u8]) -> BenchResult<Duration> {
    let wrong =
        |why: String| BenchError::Wrong(format!("the answer to a registration cannot be read: {why}"));
    let registered: ExecutorRegistered =
        serde_json::from_slice(answer).map_err(|error| wrong(error.to_string()))?;
    millstream_model::duration::parse(&registered.beat_every).map_err(|error| wrong(error.to_string()))
}

/// Performs a node: it does nothing.
#[derive(Debug)]
struct NoopPerformer {
    run: String,
    shared: Arc<BenchExecutorState>,
}

#[tonic::async_trait]
impl NodeService for NoopPerformer {
    async fn execute_node(
        &self,
        request: Request<ExecuteNodeRequest>,
    ) -> std::result::Result<Response<ExecuteNodeResponse>, Status> {
        let ExecuteNodeRequest { workflow_id, node_id, .. } = request.into_inner();
        if !workflow_id.contains(&self.run) {
            return Err(Status::unavailable("this executor performs graphs of its own bench only"));
        }
        self.shared.performed.fetch_add(1, Ordering::Relaxed);
        let status = NodeStatus::Pass.into();
        Ok(Response::new(ExecuteNodeResponse { workflow_id, node_id, status, ..Default::default() }))
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bench_executor_refuses_foreign_graphs() {
        let performer = NoopPerformer { run: "abc".to_owned(), shared: Arc::default() };
        let node = |graph: &str| {
            Request::new(ExecuteNodeRequest {
                workflow_id: graph.to_owned(),
                node_id: "n1".to_owned(),
                ..Default::default()
            })
        };
        let answer = performer.execute_node(node("m-abc-0")).await.unwrap().into_inner();
        assert_eq!((answer.workflow_id.as_str(), answer.node_id.as_str()), ("m-abc-0", "n1"));
        assert_eq!(answer.status, i32::from(NodeStatus::Pass));
        let refused = performer.execute_node(node("release-2")).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable);
        assert_eq!(performer.shared.performed.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn executor_heartbeat_follows_engine() {
        assert_eq!(beat_every(b"{\"name\":\"x\",\"beat_every\":\"5s\"}").unwrap(), Duration::from_secs(5));
        for answer in [&b""[..], b"{}", b"{\"beat_every\":\"soon\"}"] {
            assert!(beat_every(answer).is_err());
        }
    }
}
