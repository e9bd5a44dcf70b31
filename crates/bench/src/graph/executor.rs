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

use crate::error::{BenchError, Result};
use crate::process;
use crate::wire::{Address, Connection};

/// Role of its thread in reports.
pub(crate) const EXECUTOR: &str = "executor";

/// Timeout of the deregistration, which must not delay the end of a bench.
const FAREWELL: Duration = Duration::from_secs(2);

/// A running executor; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Executor {
    name: String,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    clock: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Shared {
    performed: AtomicU64,
    wrong: Mutex<Option<String>>,
}

/// State of the thread.
struct Desk {
    engine: Address,
    name: String,
    /// Contained in the ids of our graphs.
    run: String,
    capacity: u32,
    shared: Arc<Shared>,
}

#[derive(Debug, Deserialize)]
struct Registered {
    beat_every: String,
}

impl Executor {
    /// Starts the executor and waits until the engine knows it. It has the label [`Self::label`], and
    /// performs the nodes of graphs whose id contains `run`.
    pub(crate) async fn start(engine: &Address, run: &str, capacity: u32) -> Result<Self> {
        let (shared, (stop, stopped), (told, heard)) =
            (Arc::new(Shared::default()), watch::channel(false), oneshot::channel());
        let name = format!("bench-{run}");
        let desk = Desk {
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
                if let Err(error) = desk.run(told, stopped) {
                    lock(&shared.wrong).get_or_insert(error.to_string());
                }
            })
            .map_err(BenchError::machine("start the executor's thread"))?;
        let mut executor = Self { name, shared, stop, thread: Some(thread), clock: None };
        let Ok(clock) = heard.await else {
            executor.end();
            executor.well()?;
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
    pub(crate) fn performed(&self) -> u64 {
        self.shared.performed.load(Ordering::Relaxed)
    }

    /// Path of the thread's CPU clock, where the platform has one.
    pub(crate) fn clock(&self) -> Option<&PathBuf> {
        self.clock.as_ref()
    }

    /// The error that stopped it, if any.
    pub(crate) fn well(&self) -> Result<()> {
        match &*lock(&self.shared.wrong) {
            Some(text) => Err(BenchError::Wrong(format!("the executor: {text}"))),
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // [`Executor::well`] reports its error.
            let _ = thread.join();
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.end();
    }
}

impl Desk {
    /// Serves until it is stopped; sends the path of its CPU clock when the engine knows it.
    fn run(self, told: oneshot::Sender<Option<PathBuf>>, mut stopped: watch::Receiver<bool>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BenchError::machine("start the executor's runtime"))?;
        runtime.block_on(async {
            let listener = self.listen().await?;
            let address = listener.local_addr().map_err(BenchError::machine("open the executor's port"))?;
            let service =
                NodeServiceServer::new(Performer { run: self.run.clone(), shared: self.shared.clone() });
            let serving = tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            let mut line = Connection::to(&self.engine);
            let outcome = tokio::select! {
                ended = serving => Err(BenchError::Wrong(format!("it stopped serving: {ended:?}"))),
                ended = self.beat(&mut line, address, told) => ended,
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
    async fn listen(&self) -> Result<TcpListener> {
        let way = TcpStream::connect(self.engine.authority())
            .await
            .map_err(|error| BenchError::unreachable(self.engine.url(), error))?;
        let here = way.local_addr().map_err(BenchError::machine("open the executor's port"))?.ip();
        TcpListener::bind((here, 0)).await.map_err(BenchError::machine("open the executor's port"))
    }

    /// Registers again and again.
    async fn beat(
        &self,
        line: &mut Connection,
        address: SocketAddr,
        told: oneshot::Sender<Option<PathBuf>>,
    ) -> Result<()> {
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

fn beat_every(answer: &[u8]) -> Result<Duration> {
    let wrong =
        |why: String| BenchError::Wrong(format!("the answer to a registration cannot be read: {why}"));
    let registered: Registered = serde_json::from_slice(answer).map_err(|error| wrong(error.to_string()))?;
    millstream_core::duration::parse(&registered.beat_every).map_err(|error| wrong(error.to_string()))
}

/// Performs a node: it does nothing.
#[derive(Debug)]
struct Performer {
    run: String,
    shared: Arc<Shared>,
}

#[tonic::async_trait]
impl NodeService for Performer {
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn performs_the_graphs_of_its_bench_and_no_others() {
        let performer = Performer { run: "abc".to_owned(), shared: Arc::default() };
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
    fn the_engine_says_how_often_it_wants_to_hear_it() {
        assert_eq!(beat_every(b"{\"name\":\"x\",\"beat_every\":\"5s\"}").unwrap(), Duration::from_secs(5));
        for answer in [&b""[..], b"{}", b"{\"beat_every\":\"soon\"}"] {
            assert!(beat_every(answer).is_err());
        }
    }
}
