//! Somewhere outside that wants to hear of graphs, runs and items.

use std::time::Duration;

use millstream_core::id::Name;

use super::cloud_event::CloudEvent;
use super::taste::Taste;

#[async_trait::async_trait]
pub trait Sink: Send + Sync + std::fmt::Debug {
    /// What it has heard is kept under this name: another name hears from then on.
    fn name(&self) -> &Name;

    /// What the `source` of its events begins with.
    fn source(&self) -> &str;

    fn taste(&self) -> &Taste;

    fn load(&self) -> Load;

    /// Hands over events, in order, no more than its load allows. When it fails, some may have arrived: they are
    /// sent again.
    async fn send(&self, events: &[CloudEvent]) -> Result<(), Refusal>;
}

/// What a sink takes at once.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Calls of [`Sink::send`] under way at the same time, each for other subjects. Notices come in one more.
    pub requests: usize,
    /// Events of one call.
    pub events: usize,
    /// Their bytes, unless it is one event.
    pub bytes: usize,
}

/// Why events were not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is away, or wants nothing now: it would refuse anything.
    Away { error: String, retry_after: Option<Duration> },
    /// It does not want these.
    Refused { error: String },
}

impl Refusal {
    pub(crate) fn error(&self) -> &str {
        match self {
            Self::Away { error, .. } | Self::Refused { error } => error,
        }
    }
}
