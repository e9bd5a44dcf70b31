//! An action in the worker's hands, with everything that it holds.

use millstream_core::action::Attempt;
use millstream_core::machine::ActionInput;
use millstream_store::action_store::LeasedAction;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::http::HttpPerformer;
use super::leases::Held;
use super::slots::Slot;
use super::{log, noop};
use crate::error::WorkerError;
use crate::options::HttpOptions;
use crate::worker::Worker;

#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) action: LeasedAction,
    pub(crate) held: Held,
    pub(crate) slot: Slot,
}

impl Errand {
    /// `asked` is the instant before the lease was asked for.
    pub(crate) fn new(worker: &Worker, action: LeasedAction, slot: Slot, asked: Instant) -> Self {
        let held = worker.leases.hold(action.lease.clone(), asked + worker.options.lease);
        Self { action, held, slot }
    }
}

/// Who performs: the way in, and one performer per kind of action.
#[derive(Debug)]
pub(crate) struct Performers {
    hand_over: mpsc::Sender<Errand>,
    http: HttpPerformer,
}

/// What every attempt carries besides its input.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) idempotency_key: String,
    pub(crate) fencing_token: i64,
    pub(crate) traceparent: String,
}

impl Performers {
    pub(crate) fn new(options: &HttpOptions, hand_over: mpsc::Sender<Errand>) -> Result<Self, WorkerError> {
        Ok(Self { hand_over, http: HttpPerformer::new(options)? })
    }

    /// Never waits: there is room for as many errands as there are slots. An errand that nobody takes
    /// any more is dropped, and its lease runs out.
    pub(crate) fn hand_over(&self, errand: Errand) {
        if let Err(error) = self.hand_over.try_send(errand) {
            tracing::warn!(error = %error, "an action was leased and cannot be performed here");
        }
    }

    pub(crate) async fn perform(
        &self,
        action: &LeasedAction,
        input: ActionInput,
        credentials: &Credentials,
    ) -> Attempt {
        match input {
            ActionInput::Http(request) => self.http.perform(&request, credentials).await,
            ActionInput::Log(text) => log::perform(&action.lease.key, &text),
            ActionInput::Noop(value) => noop::perform(value),
        }
    }
}
