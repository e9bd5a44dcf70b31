//! Context of an attempt: its identity, deadline, cancellation, heartbeats and progress.

use std::time::Duration;

use millstream_model::id::ActionKey;
use millstream_model::raw::RawJson;
use millstream_worker::{ActionCall, AttemptPulse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::error::ActionError;

/// Progress is stored with the action; larger data belongs elsewhere.
const LONGEST_PROGRESS: usize = 16 * 1024;

/// Context of one attempt at an action. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActionContext {
    key: String,
    action: ActionKey,
    attempt: i32,
    token: i64,
    deadline: Instant,
    last_progress: Option<RawJson>,
    signs: HeartbeatSenders,
}

/// Receivers of heartbeats: the engine, and a test that records each of them.
#[derive(Debug, Clone)]
pub(crate) struct HeartbeatSenders {
    pub(crate) pulse: AttemptPulse,
    pub(crate) seen: Option<mpsc::UnboundedSender<Option<Value>>>,
}

impl ActionContext {
    /// The context of a call, and its input.
    pub(crate) fn of_call(call: ActionCall) -> (Self, RawJson) {
        let signs = HeartbeatSenders { pulse: call.pulse.clone(), seen: None };
        Self::of_watched_call(call, signs)
    }

    pub(crate) fn of_watched_call(call: ActionCall, signs: HeartbeatSenders) -> (Self, RawJson) {
        let context = Self {
            key: call.key,
            action: call.action,
            attempt: call.attempt,
            token: call.token,
            deadline: call.deadline,
            last_progress: call.progress,
            signs,
        };
        (context, call.input)
    }

    /// The action's idempotency key: the same for every attempt, on every worker, permanently. Send it along
    /// with any side effect that must not happen twice.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> i32 {
        self.attempt
    }

    /// The fencing token: grows with every attempt. A downstream service that remembers the highest token can
    /// refuse a late request of an attempt that was given up.
    pub fn token(&self) -> i64 {
        self.token
    }

    pub fn execution_id(&self) -> &str {
        self.action.execution.execution.as_str()
    }

    /// Deadline of this attempt. The attempt is dropped then, at any `await`.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time left until the deadline.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the execution was cancelled: the result is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.signs.pulse.cancellation().is_cancelled()
    }

    /// Resolves when the execution is cancelled. An action that ignores it runs on to its end.
    pub async fn cancelled(&self) {
        self.signs.pulse.cancellation().cancelled().await;
    }

    /// Sends a heartbeat. Needed only where the definition has a `heartbeat` for the action.
    pub fn heartbeat(&self) {
        self.send_beat(None);
    }

    /// Sends a heartbeat with the current progress. The next attempt, if there is one, finds the newest
    /// progress in [`last_progress`](Self::last_progress).
    ///
    /// Progress is stored with a delay: an attempt that dies may have been further than its stored progress.
    /// At most 16 KiB of JSON.
    pub fn progress(&self, value: impl Serialize) -> Result<(), ActionError> {
        let refused =
            |why: String| ActionError::fail(format!("cannot store progress: {why}")).class("progress");
        let value = serde_json::to_value(value).map_err(|error| refused(error.to_string()))?;
        let told = RawJson::from_value(&value);
        if told.len() > LONGEST_PROGRESS {
            return Err(refused(format!("it is {} bytes of JSON, more than {LONGEST_PROGRESS}", told.len())));
        }
        self.send_beat(Some((told, value)));
        Ok(())
    }

    /// The last progress of the previous attempt. Progress that does not fit the type (another version of the
    /// action wrote it) is an error that pauses the execution, because starting over may be wrong.
    pub fn last_progress<T: DeserializeOwned>(&self) -> Result<Option<T>, ActionError> {
        let Some(progress) = &self.last_progress else { return Ok(None) };
        serde_json::from_str(progress.as_str()).map(Some).map_err(|error| {
            ActionError::pause(format!("cannot read the last progress: {error}")).class("progress")
        })
    }

    fn send_beat(&self, progress: Option<(RawJson, Value)>) {
        let (told, progress) = progress.unzip();
        self.signs.pulse.send_beat(told);
        if let Some(seen) = &self.signs.seen {
            // The receiver may be gone.
            let _ = seen.send(progress);
        }
    }
}
