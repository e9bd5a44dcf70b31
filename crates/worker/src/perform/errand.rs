//! An action in the worker's hands, with everything that it holds.

use std::sync::Arc;

use millstream_core::action::Attempt;
use millstream_core::machine::{ActionInput, HttpRequest};
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
    http: Arc<dyn PerformHttp>,
}

/// What every attempt carries besides its input.
#[derive(Debug)]
pub struct Credentials {
    pub idempotency_key: String,
    pub fencing_token: i64,
    pub traceparent: String,
}

/// Sends the request of one attempt and says what came of it.
///
/// May be dropped at any await: the lease was lost, or the action's time is up. The request may have been
/// carried out all the same.
#[async_trait::async_trait]
pub trait PerformHttp: Send + Sync + std::fmt::Debug {
    async fn perform(&self, request: &HttpRequest, credentials: &Credentials) -> Attempt;
}

impl Performers {
    pub(crate) fn new(
        http: Option<Arc<dyn PerformHttp>>,
        options: &HttpOptions,
        hand_over: mpsc::Sender<Errand>,
    ) -> Result<Self, WorkerError> {
        let http = match http {
            Some(http) => http,
            None => Arc::new(HttpPerformer::new(options)?),
        };
        Ok(Self { hand_over, http })
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
