//! The request of an `http` or `webhook` action, and the interface to the client that sends it.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::attempt::AttemptOutcome;
use millstream_model::raw::RawJson;
use millstream_model::secrets::SecretHoles;
use millstream_model::time::Timestamp;
use millstream_workflow::definition::{HttpMethod, StatusPattern};

use super::attempt_contract::AttemptCredentials;

/// An outgoing request, secrets filled in. Not to be logged.
#[derive(Clone)]
pub struct HttpRequest {
    pub method: HttpMethod,
    pub url: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Option<RawJson>,
    /// The statuses that succeed; empty: 2xx.
    pub expect: Vec<StatusPattern>,
    pub max_response: Option<usize>,
    pub sealed: SealedParts,
    /// Time of sending, by the store's clock.
    pub at: Timestamp,
}

/// The parts of a request that hold a secret and stay with the origin for which they are meant.
#[derive(Debug, Clone, Default)]
pub struct SealedParts {
    pub headers: BTreeSet<String>,
    pub body: SealedBody,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SealedBody {
    #[default]
    Open,
    Sealed,
}

impl SealedBody {
    pub(crate) fn of_holes(holes: &SecretHoles) -> Self {
        if holes.is_empty() { Self::Open } else { Self::Sealed }
    }
}

impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Sends the request of one attempt and returns its outcome.
///
/// The future may be dropped at any await: the lease was lost, or the action's time is up. The request may
/// have been carried out all the same.
#[async_trait::async_trait]
pub trait PerformHttp: Send + Sync + std::fmt::Debug {
    async fn send_request(&self, request: &HttpRequest, credentials: &AttemptCredentials) -> AttemptOutcome;
}
