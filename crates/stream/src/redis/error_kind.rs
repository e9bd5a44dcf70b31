//! Classifies Redis errors, in one place.

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::{StreamError, StreamResult};

/// The stream or its group is missing: `NOGROUP` in an answer, `UNBLOCKED` (7.0) when it disappeared under a
/// blocked reader.
pub(super) fn is_group_missing(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOGROUP" | "UNBLOCKED"))
}

/// The group already exists.
pub(super) fn is_busy_group(error: &RedisError) -> bool {
    error.code() == Some("BUSYGROUP")
}

/// The answer of `XINFO` for a stream that does not exist.
pub(super) fn is_no_such_key(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("no such key"))
}

/// The server's script cache is empty.
pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The server itself answered: the connection is intact.
pub(super) fn is_server_answer(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

pub(super) fn to_unavailable(error: impl std::fmt::Display) -> StreamError {
    StreamError::Unavailable(error.to_string())
}

/// An answer that violates the protocol.
pub(super) fn unexpected_answer(what: &str, value: &Value) -> StreamError {
    StreamError::Unavailable(format!("unexpected answer to {what}: {value:?}"))
}

/// All answers of a pipeline, or the first error.
pub(super) fn all_answers(answers: Vec<redis::RedisResult<Value>>) -> StreamResult<Vec<Value>> {
    answers.into_iter().collect::<redis::RedisResult<_>>().map_err(to_unavailable)
}
