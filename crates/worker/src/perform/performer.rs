//! What performing needs besides a leased action: clients, secrets, programs, and limits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use millstream_rpc::client;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::run_service::RosterCache;
use tokio::sync::{Semaphore, mpsc};

use super::call::PerformCalls;
use super::dispatch_recorder::{DispatchRecorder, DispatchRequest};
use super::graph_inputs::GraphInputCache;
use super::http::HttpPerformer;
use super::http_request::PerformHttp;
use super::node_client::PerformNodes;
use super::secrets::SecretSource;
use crate::environment::WorkerEnvironment;
use crate::error::WorkerFailure;
use crate::leasing::ActionLeasing;
use crate::program_cache::ProgramCache;

#[derive(Debug)]
pub(crate) struct ActionPerformer {
    pub(crate) env: Arc<WorkerEnvironment>,
    pub(crate) leasing: Arc<ActionLeasing>,
    pub(crate) programs: Arc<ProgramCache>,
    /// For expensive expressions.
    pub(crate) evaluations: EvaluationPool,
    /// For actions performed at the same time.
    pub(crate) performing: Semaphore,
    pub(crate) http: Arc<dyn PerformHttp>,
    pub(crate) calls: Option<Arc<dyn PerformCalls>>,
    /// Client of executors.
    pub(crate) nodes: Arc<dyn PerformNodes>,
    pub(crate) secrets: Option<Arc<dyn SecretSource>>,
    pub(crate) dispatches: DispatchRecorder,
    pub(crate) inputs: GraphInputCache,
    pub(crate) rosters: RosterCache,
    /// Number of devices chosen so far: the tie-break between equals.
    pub(crate) choices: AtomicU64,
}

/// The clients of the performers, as far as they are given. HTTP and executors use the network otherwise.
#[derive(Debug)]
pub(crate) struct PerformerClients {
    pub(crate) http: Option<Arc<dyn PerformHttp>>,
    pub(crate) calls: Option<Arc<dyn PerformCalls>>,
    pub(crate) nodes: Option<Arc<dyn PerformNodes>>,
    pub(crate) secrets: Option<Arc<dyn SecretSource>>,
}

impl ActionPerformer {
    /// The receiver gets the records of dispatches.
    pub(crate) fn new(
        leasing: Arc<ActionLeasing>,
        (programs, evaluations): (Arc<ProgramCache>, EvaluationPool),
        clients: PerformerClients,
    ) -> Result<(Self, mpsc::Receiver<DispatchRequest>), WorkerFailure> {
        let env = Arc::clone(&leasing.env);
        let options = &env.options;
        let http = match clients.http {
            Some(http) => http,
            None => Arc::new(HttpPerformer::new(&options.http)?),
        };
        let nodes = clients.nodes.unwrap_or_else(|| {
            let policy = options.executor_networks.clone();
            let private_roots = options.http.private_roots.clone();
            Arc::new(client::ExecutorClients::new(client::ExecutorClientOptions {
                policy,
                private_roots,
                ..client::ExecutorClientOptions::default()
            }))
        });
        let (dispatches, requests) = DispatchRecorder::new(options.node_slots);
        let performer = Self {
            performing: Semaphore::new(options.action_slots),
            leasing,
            programs,
            evaluations,
            http,
            calls: clients.calls,
            nodes,
            secrets: clients.secrets,
            dispatches,
            inputs: GraphInputCache::default(),
            rosters: RosterCache::default(),
            choices: AtomicU64::new(0),
            env,
        };
        Ok((performer, requests))
    }
}
