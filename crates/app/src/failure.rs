//! Failures of commands: a message with a remedy, and an exit code for scripts.

use std::fmt;

use millstream_runtime::backend::MissingSqliteFile;

/// The exit codes of `millstream --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// A check found a difference.
    Different = 1,
    /// Wrong usage or invalid input.
    Invalid = 2,
    /// Refused, or not found.
    Refused = 3,
    /// The server or a service cannot be reached.
    Unreachable = 4,
}

/// An error with an exit code. `anyhow` errors without one exit with 2.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub code: ExitCode,
    pub message: String,
}

impl CommandFailure {
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandFailure {}

/// The exit code of any error of a command.
pub(crate) fn exit_code(error: &anyhow::Error) -> i32 {
    let code = if error.is::<MissingSqliteFile>() {
        ExitCode::Refused
    } else {
        error.downcast_ref::<CommandFailure>().map_or(ExitCode::Invalid, |failure| failure.code)
    };
    code as i32
}
