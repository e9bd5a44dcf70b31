//! The bundle of stream traits that roles receive.

use std::sync::Arc;

use crate::announce::Announcer;
use crate::doorbell::{Doorbells, StreamCare};
use crate::locks::Locks;

#[derive(Clone)]
pub struct Streams {
    pub bells: Arc<dyn Doorbells>,
    pub care: Arc<dyn StreamCare>,
    pub locks: Arc<dyn Locks>,
    pub announcer: Arc<dyn Announcer>,
}

impl Streams {
    /// Bundles a backend that implements everything on one handle.
    pub fn of<S: Doorbells + StreamCare + Locks + Announcer + 'static>(stream: Arc<S>) -> Self {
        Self { bells: stream.clone(), care: stream.clone(), locks: stream.clone(), announcer: stream }
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}
