//! Dependencies of a worker: the outside world, behind traits.

use std::sync::Arc;

use millstream_model::entropy::Entropy;
use millstream_store::Stores;
use millstream_store::clock::Clock;
use millstream_stream::StreamHandles;

use crate::outbound::Sink;
use crate::perform::{PerformCalls, PerformHttp, PerformNodes, SecretSource};

#[derive(Debug, Clone)]
pub struct WorkerDeps {
    pub stores: Stores,
    pub streams: StreamHandles,
    /// Store time. The worker's clock duty corrects a clock that follows the store.
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// HTTP client of actions; `None` uses the network, as the options allow.
    pub http: Option<Arc<dyn PerformHttp>>,
    /// Performs the actions that are external to the engine.
    pub calls: Option<Arc<dyn PerformCalls>>,
    /// Client of executors, which perform nodes; `None` uses the network.
    pub nodes: Option<Arc<dyn PerformNodes>>,
    /// Source of secrets; `None` means that there are none.
    pub secrets: Option<Arc<dyn SecretSource>>,
    /// Subscribers to graph events, each under a name of its own.
    pub sinks: Vec<Arc<dyn Sink>>,
}
