//! Errors of runs: only the function knows the consequence.

/// Why a run was not done, and the consequence. There is no conversion from other errors, so that `?` does
/// not decide by accident.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    pub(super) message: String,
    pub(super) class: Option<String>,
    pub(super) then: AfterRunError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRunError {
    Fail,
    AskAnother,
    Release,
}

impl RunError {
    fn new(message: impl Into<String>, then: AfterRunError) -> Self {
        Self { message: message.into(), class: None, then }
    }

    /// Permanent failure: the run has failed.
    pub fn fail(message: impl Into<String>) -> Self {
        Self::new(message, AfterRunError::Fail)
    }

    /// This device cannot perform it: another one is asked.
    pub fn ask_another(message: impl Into<String>) -> Self {
        Self::new(message, AfterRunError::AskAnother)
    }

    /// Released without an error; the next device continues from its progress.
    pub fn release(reason: impl Into<String>) -> Self {
        Self::new(reason, AfterRunError::Release)
    }

    /// Error class for programs: lower-case letters, digits, `_`, `.` and `-`.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }
}
