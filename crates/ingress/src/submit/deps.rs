//! Dependencies of the submission of events.

use std::sync::Arc;

use millstream_model::entropy::Entropy;
use millstream_store::clock::Clock;
use millstream_store::event_log::EventLog;

use crate::definition_cache::DefinitionCache;

pub(crate) struct SubmitDeps {
    pub(crate) events: Arc<dyn EventLog>,
    pub(crate) machines: Arc<DefinitionCache>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}
