//! What every part of a worker shares: the store, the stream, time, randomness, options, and the signals to stop.
//!
//! It knows no part of the worker, so that each part can be read, and built in a test, on its own.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::entropy::{self, Entropy};
use millstream_model::id::EventId;
use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::clock::Clock;
use millstream_stream::StreamHandles;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::options::WorkerOptions;
use crate::outage::OutageLog;

#[derive(Debug)]
pub(crate) struct WorkerEnvironment {
    pub(crate) stores: Stores,
    pub(crate) streams: StreamHandles,
    /// Store time.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) options: WorkerOptions,
    /// Ends with a successful write.
    pub(crate) store_outage: OutageLog,
    /// Reading and acknowledging.
    pub(crate) stream_outage: OutageLog,
    /// Ringing: a full Redis server still serves reads and refuses writes.
    pub(crate) ring_outage: OutageLog,
    /// Stop taking on work.
    pub(crate) stop: CancellationToken,
    /// Stop performing: the drain deadline is exceeded.
    pub(crate) halt: CancellationToken,
}

impl WorkerEnvironment {
    pub(crate) fn new(
        (stores, streams): (Stores, StreamHandles),
        (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>),
        options: WorkerOptions,
        stop: CancellationToken,
    ) -> Self {
        Self {
            stores,
            streams,
            clock,
            entropy,
            options,
            store_outage: OutageLog::of_service("the store"),
            stream_outage: OutageLog::of_service("the stream"),
            ring_outage: OutageLog::of_service("ringing"),
            stop,
            halt: CancellationToken::new(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The monotonic instant of a store time, computed from now.
    pub(crate) fn instant_of(&self, time: Timestamp) -> Instant {
        Instant::now() + time.since(self.now())
    }

    pub(crate) fn new_event_id(&self) -> EventId {
        entropy::event_id(self.now(), &*self.entropy)
    }

    /// A random number in `0.0..1.0`.
    pub(crate) fn random_unit(&self) -> f64 {
        entropy::random_unit(&*self.entropy)
    }

    /// Jitter: three quarters to five quarters of `length`, so that workers do not act in step.
    pub(crate) fn jittered(&self, length: Duration) -> Duration {
        length.mul_f64(0.75 + self.random_unit() / 2.0)
    }
}
