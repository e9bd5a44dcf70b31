//! What every attempt sends besides its input, and what it comes to.

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::quota::QuotaRefusal;
use millstream_model::time::Timestamp;
use millstream_people::assignment::ItemOutcome;
use millstream_store::action_store::LeasedAction;

use crate::environment::WorkerEnvironment;
use crate::quota_rows::pause_at_quota;

/// Identity of an attempt, sent besides its input.
#[derive(Debug)]
pub struct AttemptCredentials {
    pub idempotency_key: String,
    pub fencing_token: i64,
    pub traceparent: String,
}

/// Outcome of performing.
#[derive(Debug)]
pub(crate) enum PerformOutcome {
    Attempt(AttemptOutcome),
    /// A people item that had ended before.
    ItemEnded(Box<ItemOutcome>),
    /// Not due yet: retried at that time, and the attempt is not counted. An error says what it waits for.
    Postponed {
        at: Timestamp,
        error: Option<ActionFailure>,
    },
    /// Another party will report the outcome; given up at `until`.
    Awaiting {
        until: Option<Timestamp>,
    },
    /// An external worker had it and its lease has ended.
    Lost,
}

/// A failure of the engine itself.
pub(crate) fn internal_error(message: String) -> ActionFailure {
    ActionFailure { class: ErrorClass::Internal, message, status: None }
}

impl PerformOutcome {
    /// Not due yet.
    pub(super) const fn postponed(at: Timestamp) -> Self {
        Self::Postponed { at, error: None }
    }

    /// The tenant is at a quota.
    pub(super) fn over_quota(env: &WorkerEnvironment, action: &LeasedAction, refusal: QuotaRefusal) -> Self {
        let now = env.now();
        let pause = pause_at_quota(now.since(action.ready_at), refusal.retry_after);
        let message = refusal.to_string();
        let error = ActionFailure { class: ErrorClass::Quota, message, status: None };
        Self::Postponed { at: now.plus(env.jittered(pause)), error: Some(error) }
    }
}
