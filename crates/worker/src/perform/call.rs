//! The interface to actions implemented by a user's own worker: the input of an attempt.
//!
//! The engine sees a name, JSON in and an [`AttemptOutcome`] out. It decides about leases, retries and time; an
//! implementation of [`PerformCalls`] only does the work.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::id::{ActionKey, Name};
use millstream_model::raw::RawJson;
use tokio::time::Instant;

use crate::leasing::pulse::AttemptPulse;

/// Performs the actions implemented by a user's own worker.
#[async_trait::async_trait]
pub trait PerformCalls: Send + Sync + std::fmt::Debug {
    /// The names that definitions use in `call: NAME`, sorted.
    fn action_names(&self) -> Vec<Name>;

    /// Performs one attempt. The future may be dropped at any await: the lease was lost or the deadline has
    /// passed.
    async fn perform_call(&self, call: ActionCall) -> AttemptOutcome;
}

/// One attempt at a custom action.
#[derive(Debug)]
pub struct ActionCall {
    /// As in `call: NAME`.
    pub name: Name,
    /// The action's idempotency key, the same for every attempt.
    pub key: String,
    pub action: ActionKey,
    /// From 1.
    pub attempt: i32,
    /// The fencing token: grows with every lease.
    pub token: i64,
    /// End of this attempt's time.
    pub deadline: Instant,
    pub input: RawJson,
    /// The last progress reported by the previous attempt.
    pub progress: Option<RawJson>,
    pub pulse: AttemptPulse,
}
