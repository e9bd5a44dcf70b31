//! Errors of actions: the author chooses the consequence.
//!
//! There is deliberately no blanket conversion from other errors. A lost connection needs another attempt, a
//! declined card does not, and an unexpected answer needs an operator. The engine cannot distinguish them,
//! and `?` on any error would decide by accident. [`Decide`] makes the decision in one word instead.

use std::fmt;
use std::time::Duration;

/// Why an attempt failed, and the consequence.
///
/// ```
/// use millstream_sdk::ActionError;
///
/// let error = ActionError::fail("the card is declined").class("card_declined");
/// assert_eq!(error.to_string(), "card_declined: the card is declined");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionError {
    decision: FailureDecision,
    class: String,
    message: String,
}

/// Consequence of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureDecision {
    /// Another attempt, as the action's `retry` allows; not sooner than requested.
    Retry { after: Option<Duration> },
    /// No further attempt: the event of `on_failure` is sent; without one the execution is paused.
    Fail,
    /// No further attempt and no event: an operator decides.
    Pause,
}

/// The default class.
const CLASS: &str = "failed";

impl ActionError {
    /// Another attempt may succeed.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(FailureDecision::Retry { after: None }, message)
    }

    /// Another attempt may succeed, but not before this much time has passed.
    pub fn retry_after(message: impl fmt::Display, wait: Duration) -> Self {
        Self::new(FailureDecision::Retry { after: Some(wait) }, message)
    }

    /// No further attempt can succeed.
    pub fn fail(message: impl fmt::Display) -> Self {
        Self::new(FailureDecision::Fail, message)
    }

    /// An operator must decide before anything else happens.
    pub fn pause(message: impl fmt::Display) -> Self {
        Self::new(FailureDecision::Pause, message)
    }

    fn new(decision: FailureDecision, message: impl fmt::Display) -> Self {
        Self { decision, class: CLASS.to_owned(), message: message.to_string() }
    }

    /// Error class for programs, which the event of `on_failure` carries as `error.class`. It is a name as in
    /// definitions: lower-case letters, digits, `_`, `.` and `-`. Other characters become `_`.
    #[must_use]
    pub fn class(mut self, class: impl AsRef<str>) -> Self {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
        let name: String = class
            .as_ref()
            .chars()
            .map(|c| c.to_ascii_lowercase())
            .map(|c| if allowed(c) { c } else { '_' })
            .take(64)
            .collect();
        let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        self.class = if begins_well {
            name
        } else if name.is_empty() {
            CLASS.to_owned()
        } else {
            format!("{CLASS}_{name}")
        };
        self
    }

    /// The consequence.
    pub fn decision(&self) -> FailureDecision {
        self.decision
    }

    /// The error class; `failed` by default.
    pub fn class_name(&self) -> &str {
        &self.class
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}

impl std::error::Error for ActionError {}

/// Chooses the consequence of a foreign error for the action.
///
/// ```
/// use millstream_sdk::{ActionError, Decide};
///
/// fn amount(text: &str) -> Result<u64, ActionError> {
///     text.parse().or_fail()
/// }
/// assert!(amount("ten").is_err());
/// ```
pub trait Decide<T> {
    /// Another attempt may succeed.
    fn or_retry(self) -> Result<T, ActionError>;
    /// Another attempt may succeed, but not before this much time has passed.
    fn or_retry_after(self, wait: Duration) -> Result<T, ActionError>;
    /// No further attempt can succeed.
    fn or_fail(self) -> Result<T, ActionError>;
    /// An operator must decide.
    fn or_pause(self) -> Result<T, ActionError>;
}

impl<T, E: fmt::Display> Decide<T> for Result<T, E> {
    fn or_retry(self) -> Result<T, ActionError> {
        self.map_err(ActionError::retry)
    }

    fn or_retry_after(self, wait: Duration) -> Result<T, ActionError> {
        self.map_err(|error| ActionError::retry_after(error, wait))
    }

    fn or_fail(self) -> Result<T, ActionError> {
        self.map_err(ActionError::fail)
    }

    fn or_pause(self) -> Result<T, ActionError> {
        self.map_err(ActionError::pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn author_decides_error_consequence() {
        let broken = || "x".parse::<u8>();
        assert_eq!(broken().or_retry().unwrap_err().decision(), FailureDecision::Retry { after: None });
        assert_eq!(broken().or_fail().unwrap_err().decision(), FailureDecision::Fail);
        assert_eq!(broken().or_pause().unwrap_err().decision(), FailureDecision::Pause);
        let later = broken().or_retry_after(Duration::from_secs(3)).unwrap_err();
        assert_eq!(later.decision(), FailureDecision::Retry { after: Some(Duration::from_secs(3)) });
        assert_eq!(later.to_string(), "failed: invalid digit found in string");
    }

    #[test]
    fn error_class_is_a_valid_name() {
        let class = |text: &str| ActionError::fail("x").class(text).class_name().to_owned();
        assert_eq!(class("card_declined"), "card_declined");
        assert_eq!(class("Card declined!"), "card_declined_");
        assert_eq!(class("404"), "failed_404");
        assert_eq!(class(""), "failed");
    }
}
