//! Classifies failed calls to executors.
//!
//! gRPC has one code for several of these failures, and the mapping depends on how tonic was built. The
//! classification therefore goes by the origin of a status: a status without a source was sent by the peer;
//! a status with a source was created here, and its chain of sources identifies the failure.
//!
//! The texts describe what is behind an address, and the address may be a tenant's choice: they are for the
//! log only. A tenant sees [`CallFailure::shown_to_tenant`], which contains no data from the connection.

use std::error::Error;

use millstream_workflow::graph::NodeStatus;
use tonic::{Code, ConnectError, Status, TimeoutExpired};

use super::target::ExecutorOrigin;

/// Why a call failed. Each kind maps to a status of the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The request did not arrive: no connection, or it was closed before the request was sent.
    #[error("the executor cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent, and the connection or the call broke before the answer. Whether the work was
    /// done is unknown.
    #[error("the executor disconnected: {0}")]
    Crashed(String),
    /// No answer by the deadline.
    #[error("the executor did not answer in time")]
    TimedOut,
    /// The executor answered with an error status.
    #[error("the executor refused: {code:?}: {message}")]
    Refused { code: Code, message: String },
    /// The peer does not speak gRPC.
    #[error("peer is not a Millstream executor: {0}")]
    Garbage(String),
}

impl CallFailure {
    /// The status of the node after this failure.
    pub fn node_status(&self) -> NodeStatus {
        match self {
            Self::Unreachable(_) | Self::Garbage(_) => NodeStatus::InfraError,
            Self::Crashed(_) => NodeStatus::Crash,
            Self::TimedOut => NodeStatus::Timeout,
            Self::Refused {
                code: Code::ResourceExhausted | Code::Unavailable | Code::Unimplemented, ..
            } => NodeStatus::InfraError,
            Self::Refused { .. } => NodeStatus::TaskError,
        }
    }

    /// The message for the tenant. No connection, a forbidden address, another protocol and another gRPC
    /// service are indistinguishable; the peer's own message is shown only for executors from the
    /// operator's settings.
    pub fn shown_to_tenant(&self, origin: ExecutorOrigin) -> String {
        match (self, origin) {
            (Self::Unreachable(_) | Self::Garbage(_), _)
            | (Self::Refused { code: Code::Unimplemented, .. }, ExecutorOrigin::Registered) => {
                "the executor could not be reached".to_owned()
            }
            (Self::Crashed(_), _) => "the connection to the executor broke before it answered".to_owned(),
            (Self::TimedOut, _) => self.to_string(),
            (Self::Refused { .. }, ExecutorOrigin::Configured) => self.to_string(),
            (Self::Refused { code, .. }, ExecutorOrigin::Registered) => {
                format!("the executor refused: {code:?}")
            }
        }
    }
}

impl From<Status> for CallFailure {
    fn from(status: Status) -> Self {
        match status.source() {
            Some(source) => classify_local(source),
            None if status.code() == Code::DeadlineExceeded => Self::TimedOut,
            None => Self::Refused { code: status.code(), message: status.message().to_owned() },
        }
    }
}

/// Classifies a failure on this side, or on the way.
fn classify_local(source: &(dyn Error + 'static)) -> CallFailure {
    error_chain(source).find_map(classify_cause).unwrap_or_else(|| CallFailure::Crashed(join_causes(source)))
}

/// The failure that a cause identifies, if it is a known one.
fn classify_cause(cause: &(dyn Error + 'static)) -> Option<CallFailure> {
    if cause.is::<TimeoutExpired>() {
        return Some(CallFailure::TimedOut);
    }
    if cause.is::<ConnectError>() {
        return Some(CallFailure::Unreachable(join_causes(cause)));
    }
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        // The connection closed while the request was still queued.
        return error.is_canceled().then(|| CallFailure::Unreachable(join_causes(cause)));
    }
    cause.downcast_ref::<h2::Error>().map(classify_http2)
}

fn classify_http2(error: &h2::Error) -> CallFailure {
    let unprocessed = match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => true,
        // The peer shuts down and accepts no new calls.
        Some(h2::Reason::NO_ERROR) => error.is_go_away(),
        Some(_) | None => false,
    };
    let text = error.to_string();
    if error.is_remote() && unprocessed {
        CallFailure::Unreachable(text)
    } else if error.is_library() {
        // The received bytes violate the protocol.
        CallFailure::Garbage(text)
    } else {
        CallFailure::Crashed(text)
    }
}

/// An error with its causes, without repetitions.
fn join_causes(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in error_chain(error).map(ToString::to_string) {
        if texts.last().is_none_or(|last| !last.ends_with(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

fn error_chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
