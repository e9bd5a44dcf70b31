//! Dependencies of graphs.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::entropy::Entropy;
use millstream_store::Stores;
use millstream_store::clock::Clock;
use tokio_util::sync::CancellationToken;

use crate::accept::EventAcceptor;
use crate::admission::AdmissionControl;
use crate::definition_cache::DefinitionCache;
use crate::submit::SubmitDeps;
use crate::tasks::report::TaskBatcher;
use crate::wait::WaitDeps;
use crate::waiters::WaiterRegistry;

pub(crate) struct GraphDeps {
    pub(crate) stores: Stores,
    pub(crate) accept: EventAcceptor,
    pub(crate) admission: Arc<AdmissionControl>,
    pub(crate) submit: Arc<SubmitDeps>,
    pub(crate) waits: Arc<WaitDeps>,
    pub(crate) news: WaiterRegistry,
    pub(crate) machines: Arc<DefinitionCache>,
    /// Reports of executors about their attempts.
    pub(crate) reports: Arc<TaskBatcher>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) draining: CancellationToken,
    /// Interval at which a watch reads the store although nothing was announced.
    pub(crate) reread: Duration,
}
