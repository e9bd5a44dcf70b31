//! Receiver of outbound events of graphs, runs and items.

use std::time::Duration;

use millstream_model::id::Name;

use super::cloud_event::CloudEvent;
use super::event_filter::SinkFilter;

#[async_trait::async_trait]
pub trait Sink: Send + Sync + std::fmt::Debug {
    /// Its delivery position is stored under this name: a sink with a new name starts from then on.
    fn name(&self) -> &Name;

    /// Prefix of the `source` of its events.
    fn source(&self) -> &str;

    fn event_filter(&self) -> &SinkFilter;

    fn load_limits(&self) -> SinkLoad;

    /// Delivers events, in order, within its load. After a failure some may have arrived: they are sent
    /// again.
    async fn send_events(&self, events: &[CloudEvent]) -> Result<(), SinkRefusal>;
}

/// Limits of concurrent deliveries.
#[derive(Debug, Clone, Copy)]
pub struct SinkLoad {
    /// Concurrent calls of [`Sink::send_events`], each for other subjects. Notices add one more.
    pub requests: usize,
    /// Events per call.
    pub events: usize,
    /// Bytes per call, unless it is one event.
    pub bytes: usize,
}

/// Reason why events were not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkRefusal {
    /// The sink is unavailable or rate limited: it would refuse any event.
    Away { error: String, retry_after: Option<Duration> },
    /// The sink refuses these events.
    Refused { error: String },
}

impl SinkRefusal {
    pub(crate) fn error(&self) -> &str {
        match self {
            Self::Away { error, .. } | Self::Refused { error } => error,
        }
    }
}
