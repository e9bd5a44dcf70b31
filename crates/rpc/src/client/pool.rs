//! One connection per executor, and the call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::{Instant, timeout_at};
use tonic::Request;
use tonic::transport::Channel;

use super::failure::CallFailure;
use super::options::{self, Options};
use crate::address;
use crate::proto::node_service_client::NodeServiceClient;
use crate::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use crate::write::REQUEST_BYTES;

/// What an answer may have: a result of a megabyte, edits and logs.
const RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// A request may be larger than most accept, by its input: then the executor has to say so.
const SLACK: usize = 4 * 1024 * 1024;
/// The deadline is kept here. The one that the executor's side keeps comes later, so that the two do not race.
const GRACE: Duration = Duration::from_secs(1);

/// Executors, by address. Clones share the connections.
#[derive(Clone)]
pub struct Executors {
    options: Options,
    clients: Arc<Mutex<LruCache<String, NodeServiceClient<Channel>>>>,
}

impl Executors {
    pub fn new(options: Options) -> Self {
        let clients = Arc::new(Mutex::new(LruCache::new(options.connections)));
        Self { options, clients }
    }

    /// Performs an attempt at the executor of that address (`http://host:port`). Dropping the future calls it
    /// off: the executor sees that the call is cancelled.
    pub async fn execute(
        &self,
        address: &str,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallFailure::TimedOut);
        }
        let mut client = self.client(address)?;
        let mut request = Request::new(request);
        request.set_timeout(left + GRACE);
        match timeout_at(deadline, client.execute_node(request)).await {
            Ok(answered) => Ok(answered?.into_inner()),
            Err(_) => Err(CallFailure::TimedOut),
        }
    }

    /// Closes the connection to an executor that has retired, when its calls are over.
    pub fn forget(&self, address: &str) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).pop(address);
    }

    fn client(&self, address: &str) -> Result<NodeServiceClient<Channel>, CallFailure> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(address) {
            return Ok(client.clone());
        }
        let no_address = |why: String| CallFailure::Unreachable(format!("the address {address:?} {why}"));
        address::check(address).map_err(|why| no_address(why.to_owned()))?;
        let channel = options::channel(address, &self.options).map_err(|why| no_address(why.to_string()))?;
        let client = NodeServiceClient::new(channel)
            .max_decoding_message_size(RESPONSE_BYTES)
            .max_encoding_message_size(REQUEST_BYTES + SLACK);
        clients.push(address.to_owned(), client.clone());
        Ok(client)
    }
}

impl Default for Executors {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executors").field("options", &self.options).finish_non_exhaustive()
    }
}
