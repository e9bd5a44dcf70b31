//! What an attempt knows, and what it can say while it runs.

use std::time::Duration;

use millstream_core::id::ActionKey;
use millstream_core::raw::RawJson;
use millstream_worker::{Call, Pulse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::error::ActionError;

/// Progress is stored with the action; what is longer belongs elsewhere.
const LONGEST_PROGRESS: usize = 16 * 1024;

/// One attempt at an action, as the action sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActionContext {
    key: String,
    action: ActionKey,
    attempt: i32,
    token: i64,
    deadline: Instant,
    last_progress: Option<RawJson>,
    signs: Signs,
}

/// Where signs of life go: to the engine, and to a test that wants to see each of them.
#[derive(Debug, Clone)]
pub(crate) struct Signs {
    pub(crate) pulse: Pulse,
    pub(crate) seen: Option<mpsc::UnboundedSender<Option<Value>>>,
}

impl ActionContext {
    /// The context of a call, and its input.
    pub(crate) fn of(call: Call) -> (Self, RawJson) {
        let signs = Signs { pulse: call.pulse.clone(), seen: None };
        Self::watched(call, signs)
    }

    pub(crate) fn watched(call: Call, signs: Signs) -> (Self, RawJson) {
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

    /// The action's idempotency key: the same on every attempt, on every worker, for ever. Send it along with whatever
    /// must not happen twice.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> i32 {
        self.attempt
    }

    /// The fencing token: grows with every attempt. Another side that remembers the highest it has seen can refuse what
    /// comes late from an attempt that was given up.
    pub fn token(&self) -> i64 {
        self.token
    }

    pub fn execution_id(&self) -> &str {
        self.action.execution.execution.as_str()
    }

    /// When this attempt's time is up. It is dropped then, at whatever `await` it is.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How much time is left.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the execution was cancelled: nobody waits for the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.signs.pulse.cancelled().is_cancelled()
    }

    /// Resolves when the execution is cancelled. An action that does not listen runs on to its end.
    pub async fn cancelled(&self) {
        self.signs.pulse.cancelled().cancelled().await;
    }

    /// Says that the attempt is alive. Needed only where the definition has a `heartbeat` for the action.
    pub fn heartbeat(&self) {
        self.sign(None);
    }

    /// Says that the attempt is alive, and how far it is. The next attempt, if there is one, finds the newest progress
    /// in [`last_progress`](Self::last_progress).
    ///
    /// It is kept on the way and not at once: an attempt that dies may have been further than what is found. At most
    /// 16 KiB of JSON.
    pub fn progress(&self, value: impl Serialize) -> Result<(), ActionError> {
        let refused =
            |why: String| ActionError::fail(format!("the progress cannot be kept: {why}")).class("progress");
        let value = serde_json::to_value(value).map_err(|error| refused(error.to_string()))?;
        let told = RawJson::of(&value);
        if told.len() > LONGEST_PROGRESS {
            return Err(refused(format!("it is {} bytes of JSON, more than {LONGEST_PROGRESS}", told.len())));
        }
        self.sign(Some((told, value)));
        Ok(())
    }

    /// What an attempt before this one told last. Progress that does not fit the type (another version of the action
    /// told it) is an error that pauses: starting over may or may not be what you want.
    pub fn last_progress<T: DeserializeOwned>(&self) -> Result<Option<T>, ActionError> {
        let Some(progress) = &self.last_progress else { return Ok(None) };
        serde_json::from_str(progress.as_str()).map(Some).map_err(|error| {
            ActionError::pause(format!("the last progress cannot be read: {error}")).class("progress")
        })
    }

    fn sign(&self, progress: Option<(RawJson, Value)>) {
        let (told, progress) = progress.unzip();
        self.signs.pulse.beat(told);
        if let Some(seen) = &self.signs.seen {
            // Nobody may be looking any more.
            let _ = seen.send(progress);
        }
    }
}
