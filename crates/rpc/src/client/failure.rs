//! Why a call brought no answer.
//!
//! gRPC has one code for several of these, and which code stands for which depends on how tonic was built. So
//! it goes by where a status comes from: one without a source was sent by the other side, one with a source was
//! made here, and its chain of sources says of what.
//!
//! The texts say what is behind an address, and the address may be a tenant's choice: they are for the log. A tenant
//! sees [`CallFailure::shown_to_tenant`], which has nothing in it that came over the connection.

use std::error::Error;

use millstream_core::graph::NodeStatus;
use tonic::{Code, ConnectError, Status, TimeoutExpired};

use super::target::ExecutorOrigin;

/// What became of a call. Each kind is another status of the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The request did not get there: no connection, or it was closed before the request left.
    #[error("the executor cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent, and the connection or the call broke before there was an answer. Whether the work
    /// was done is unknown.
    #[error("the executor went away: {0}")]
    Crashed(String),
    /// There was no answer by the deadline.
    #[error("the executor did not answer in time")]
    TimedOut,
    /// The executor answered with a status instead.
    #[error("the executor refused: {code:?}: {message}")]
    Refused { code: Code, message: String },
    /// What is there does not speak gRPC.
    #[error("what answers there is no executor: {0}")]
    Garbage(String),
}

impl CallFailure {
    /// What it makes of the node.
    pub fn status(&self) -> NodeStatus {
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

    /// What the tenant sees. No connection, a forbidden address, another protocol and another gRPC service are one and
    /// the same; the words of a peer are shown only when the operator named it as an executor.
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
            Some(source) => local(source),
            None if status.code() == Code::DeadlineExceeded => Self::TimedOut,
            None => Self::Refused { code: status.code(), message: status.message().to_owned() },
        }
    }
}

/// Something that went wrong on this side, or on the way.
fn local(source: &(dyn Error + 'static)) -> CallFailure {
    causes(source).find_map(known).unwrap_or_else(|| CallFailure::Crashed(chain(source)))
}

/// What a cause stands for, if it is one of those that say it.
fn known(cause: &(dyn Error + 'static)) -> Option<CallFailure> {
    if cause.is::<TimeoutExpired>() {
        return Some(CallFailure::TimedOut);
    }
    if cause.is::<ConnectError>() {
        return Some(CallFailure::Unreachable(chain(cause)));
    }
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        // It was still in the queue when the connection was closed.
        return error.is_canceled().then(|| CallFailure::Unreachable(chain(cause)));
    }
    cause.downcast_ref::<h2::Error>().map(http2)
}

fn http2(error: &h2::Error) -> CallFailure {
    let unprocessed = match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => true,
        // The other side shuts down and does not take new calls.
        Some(h2::Reason::NO_ERROR) => error.is_go_away(),
        Some(_) | None => false,
    };
    let text = error.to_string();
    if error.is_remote() && unprocessed {
        CallFailure::Unreachable(text)
    } else if error.is_library() {
        // What came does not follow the protocol.
        CallFailure::Garbage(text)
    } else {
        CallFailure::Crashed(text)
    }
}

/// An error with its causes, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in causes(error).map(ToString::to_string) {
        if texts.last().is_none_or(|last| !last.ends_with(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
