//! Errors of calls: refused by the server with a problem document, or without an answer.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use millstream_api::problem::{Problem, RequestFault};
use serde::{Deserialize, Serialize};

/// The type of a problem that is not a document of the server (RFC 9457).
const NO_DOCUMENT: &str = "about:blank";

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused the call. The [`ServerProblem`] says why.
    #[error("{0}")]
    Refused(Box<ServerProblem>),
    /// No answer: refused connection, reset, timeout. The request may or may not have arrived; calls that are
    /// safe to repeat have been retried up to the limit of the client's policy.
    #[error("no answer from {url}: {}", innermost_cause(.source))]
    Unreachable { url: String, source: reqwest::Error },
    /// An open connection was closed, or was silent for too long.
    #[error("the connection to {url} was lost")]
    Closed { url: String },
    /// An answer that violates the API.
    #[error("invalid answer from {url}: {reason}")]
    Unreadable { url: String, reason: String },
    /// The request cannot be sent: a value that JSON cannot represent.
    #[error("cannot be sent: {0}")]
    Unsendable(String),
    /// A setting of the client cannot be used.
    #[error("{setting} cannot be used: {reason}")]
    InvalidSetting { setting: ClientSetting, reason: String },
    /// The awaited result did not come in time.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
}

/// A setting of a [`ClientBuilder`](crate::client::ClientBuilder) that is validated when the client is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientSetting {
    Url,
    CaCertificates,
    ClientCertificate,
}

impl fmt::Display for ClientSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "the address of the server",
            Self::CaCertificates => "the CA certificates",
            Self::ClientCertificate => "the client certificate",
        })
    }
}

impl ClientError {
    /// The server's problem document, if it sent one.
    pub fn problem(&self) -> Option<&ServerProblem> {
        if let Self::Refused(problem) = self { Some(problem) } else { None }
    }

    /// Whether the server answered 404.
    pub fn is_not_found(&self) -> bool {
        self.problem().is_some_and(|problem| problem.status == 404)
    }

    /// Whether the request conflicts with the current state (409).
    pub fn is_conflict(&self) -> bool {
        self.problem().is_some_and(|problem| problem.status == 409)
    }
}

/// The innermost cause is the specific one; the errors around it add nothing.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// A problem document (RFC 9457) of the server. Its fields are those of [`Problem`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerProblem {
    #[serde(flatten)]
    pub document: Problem,
    /// The requested delay before a retry.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl Deref for ServerProblem {
    type Target = Problem;

    fn deref(&self) -> &Problem {
        &self.document
    }
}

impl From<Problem> for ServerProblem {
    fn from(document: Problem) -> Self {
        Self { document, retry_after: None }
    }
}

impl ServerProblem {
    /// Whether the server sent it as a problem document. Otherwise the detail is the start of the body.
    pub fn is_document(&self) -> bool {
        self.kind != NO_DOCUMENT
    }

    /// A best-effort problem for an answer whose body may not be a problem document, for example from a
    /// proxy.
    pub(crate) fn of_response(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let document = match serde_json::from_slice::<Problem>(body) {
            Ok(document) => Problem { status, ..document },
            Err(_) => Problem {
                kind: NO_DOCUMENT.to_owned(),
                title: format!("status {status}"),
                status,
                detail: String::from_utf8_lossy(body).chars().take(200).collect(),
                instance: None,
                problems: Vec::new(),
                holder: None,
                quota: None,
            },
        };
        Self { document, retry_after }
    }
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.status)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if self.problems.len() > 1 {
            for RequestFault { path, message } in &self.problems {
                write!(f, "\n  {path}: {message}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ServerProblem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_document_is_readable() {
        let body = br#"{"type":"urn:millstream:problem:invalid","title":"Not valid","status":422,"detail":"2 problems",
            "problems":[{"path":"a","message":"is b"},{"path":"c","message":"is d"}],"more":1}"#;
        let problem = ServerProblem::of_response(422, body, None);
        assert_eq!((problem.word(), problem.problems.len()), ("invalid", 2));
        assert_eq!(problem.to_string(), "Not valid (422): 2 problems\n  a: is b\n  c: is d");
    }

    #[test]
    fn non_problem_answer_is_quoted() {
        let problem = ServerProblem::of_response(502, b"<html>Bad gateway", None);
        assert_eq!(problem.to_string(), "status 502 (502): <html>Bad gateway");
        assert!(!problem.is_document());
    }
}
