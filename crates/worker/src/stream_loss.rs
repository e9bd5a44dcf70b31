//! What this worker knows about losses of the stream's data: the reader reports them, a duty repairs them.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct StreamLossWatch {
    missing_group: Notify,
    generation: Mutex<Option<String>>,
}

impl StreamLossWatch {
    /// The reader found the consumer group missing.
    pub(crate) fn report_missing_group(&self) {
        self.missing_group.notify_one();
    }

    pub(crate) async fn until_missing_group(&self) {
        self.missing_group.notified().await;
    }

    /// Whether all undecided executions were rung since this stream generation began, as far as this worker
    /// knows.
    pub(crate) fn has_swept_generation(&self, generation: &str) -> bool {
        let known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_deref() == Some(generation)
    }

    pub(crate) fn remember_generation(&self, generation: String) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    }
}
