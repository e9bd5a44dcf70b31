//! The bundle of stream traits that roles receive.

use std::sync::Arc;

use crate::announcement::Announcer;
use crate::doorbell::{Doorbells, StreamMaintenance};
use crate::locks::ExecutionLocks;

#[derive(Clone)]
pub struct StreamHandles {
    pub bells: Arc<dyn Doorbells>,
    pub care: Arc<dyn StreamMaintenance>,
    pub locks: Arc<dyn ExecutionLocks>,
    pub announcer: Arc<dyn Announcer>,
}

impl StreamHandles {
    /// Bundles a backend that implements everything on one handle.
    pub fn from_backend<S: Doorbells + StreamMaintenance + ExecutionLocks + Announcer + 'static>(
        stream: Arc<S>,
    ) -> Self {
        Self { bells: stream.clone(), care: stream.clone(), locks: stream.clone(), announcer: stream }
    }
}

impl std::fmt::Debug for StreamHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}
