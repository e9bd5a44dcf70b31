//! Connection pool: one connection per executor, and the call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_model::network_policy::NetworkPolicy;
use tokio::time::{Instant, timeout_at};
use tonic::Request;
use tonic::transport::Channel;

use super::connector::{ExecutorConnector, ExecutorNetwork, SystemNetwork};
use super::failure::CallFailure;
use super::options::{self, ExecutorClientOptions};
use super::target::{ExecutorOrigin, ExecutorTarget};
use super::tls::{ExecutorTrust, SecuredConnector};
use crate::address;
use crate::proto::node_service_client::NodeServiceClient;
use crate::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use crate::write::REQUEST_BYTES;

/// Upper bound of an answer: a result of a megabyte, edits and logs.
const RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// A request may exceed the default limit of most servers because of its input; the executor then rejects
/// it.
const SLACK: usize = 4 * 1024 * 1024;
/// The deadline is enforced here. The `grpc-timeout` of the executor is later, so that the two do not race.
const GRACE: Duration = Duration::from_secs(1);

/// Clients of executors, by address. Clones share the connections. An address that is both in the settings
/// and registered has two connections: only one of them is checked.
#[derive(Clone)]
pub struct ExecutorClients {
    options: ExecutorClientOptions,
    policy: Arc<NetworkPolicy>,
    network: Arc<dyn ExecutorNetwork>,
    trust: Arc<ExecutorTrust>,
    clients: Arc<Mutex<LruCache<ExecutorTarget, NodeServiceClient<Channel>>>>,
}

impl ExecutorClients {
    pub fn new(options: ExecutorClientOptions) -> Self {
        let network = Arc::new(SystemNetwork::new(&options));
        Self::on_network(options, network)
    }

    /// Uses another network than the system's.
    pub fn on_network(options: ExecutorClientOptions, network: Arc<dyn ExecutorNetwork>) -> Self {
        let clients = Arc::new(Mutex::new(LruCache::new(options.connections)));
        let policy = Arc::new(options.policy.clone());
        let trust = Arc::new(ExecutorTrust::new(options.private_roots.clone()));
        Self { options, policy, network, trust, clients }
    }

    /// Performs an attempt at the executor. Dropping the future cancels the call, which the executor sees.
    pub async fn execute_node(
        &self,
        executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallFailure::TimedOut);
        }
        let mut client = self.client_of(executor)?;
        let mut request = Request::new(request);
        request.set_timeout(left + GRACE);
        match timeout_at(deadline, client.execute_node(request)).await {
            Ok(answered) => Ok(answered?.into_inner()),
            Err(_) => Err(CallFailure::TimedOut),
        }
    }

    /// Closes the connection to a retired executor after its calls.
    pub fn forget_executor(&self, executor: &ExecutorTarget) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).pop(executor);
    }

    fn client_of(&self, executor: &ExecutorTarget) -> Result<NodeServiceClient<Channel>, CallFailure> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(executor) {
            return Ok(client.clone());
        }
        let address = executor.address.as_str();
        let no_address = |why: String| CallFailure::Unreachable(format!("the address {address:?} {why}"));
        address::check_address(address).map_err(|why| no_address(why.to_owned()))?;
        let channel = options::lazy_channel(address, &self.options, self.connector_for(executor.origin))
            .map_err(|why| no_address(why.to_string()))?;
        let client = NodeServiceClient::new(channel)
            .max_decoding_message_size(RESPONSE_BYTES)
            .max_encoding_message_size(REQUEST_BYTES + SLACK);
        clients.push(executor.clone(), client.clone());
        Ok(client)
    }

    fn connector_for(&self, origin: ExecutorOrigin) -> SecuredConnector {
        let policy = match origin {
            ExecutorOrigin::Configured => None,
            ExecutorOrigin::Registered => Some(Arc::clone(&self.policy)),
        };
        let timeout = self.options.connect_timeout;
        let plain = ExecutorConnector::new(Arc::clone(&self.network), policy, timeout);
        SecuredConnector::new(plain, Arc::clone(&self.trust), timeout)
    }
}

impl Default for ExecutorClients {
    fn default() -> Self {
        Self::new(ExecutorClientOptions::default())
    }
}

impl fmt::Debug for ExecutorClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executors").field("options", &self.options).finish_non_exhaustive()
    }
}
