//! What a worker is given: the outside world, behind traits.

use std::sync::Arc;

use millstream_core::entropy::Entropy;
use millstream_store::Stores;
use millstream_store::clock::Clock;
use millstream_stream::Streams;

use crate::outbound::Sink;
use crate::perform::{PerformCalls, PerformHttp, PerformNodes, Secrets};

#[derive(Debug, Clone)]
pub struct Deps {
    pub stores: Stores,
    pub streams: Streams,
    /// Store time. A clock that follows the store is corrected by the worker's clock duty.
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Who sends the requests of actions; `None` sends them over the network, as the options allow.
    pub http: Option<Arc<dyn PerformHttp>>,
    /// Who performs the actions that the engine does not know itself.
    pub calls: Option<Arc<dyn PerformCalls>>,
    /// Who calls the executors of nodes; `None`: over the network.
    pub nodes: Option<Arc<dyn PerformNodes>>,
    /// Where secrets come from; `None`: there are none.
    pub secrets: Option<Arc<dyn Secrets>>,
    /// Who wants to hear what happens to graphs, each under a name of its own.
    pub sinks: Vec<Arc<dyn Sink>>,
}
