//! How an action fails: the author says what shall follow.
//!
//! There is no blanket conversion from other errors, and that is on purpose. A lost connection wants another attempt,
//! a declined card does not, and an answer that nobody expected wants a person. The engine cannot tell them apart, and
//! `?` on anything would decide by accident. [`Decide`] makes the decision one word long instead.

use std::fmt;
use std::time::Duration;

/// Why an attempt failed, and what shall follow.
///
/// ```
/// use millstream_sdk::ActionError;
///
/// let error = ActionError::fail("the card is declined").class("card_declined");
/// assert_eq!(error.to_string(), "card_declined: the card is declined");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionError {
    decision: Decision,
    class: String,
    message: String,
}

/// What shall follow a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Another attempt, as the action's `retry` allows; not sooner than asked.
    Retry { after: Option<Duration> },
    /// No further attempt: `on_failure` is told; without one the execution is paused.
    Fail,
    /// No further attempt, and nobody is told: a person decides.
    Pause,
}

/// The class of errors that were given none.
const CLASS: &str = "failed";

impl ActionError {
    /// Another attempt may succeed.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(Decision::Retry { after: None }, message)
    }

    /// Another attempt may succeed, but not before this much time has passed.
    pub fn retry_after(message: impl fmt::Display, wait: Duration) -> Self {
        Self::new(Decision::Retry { after: Some(wait) }, message)
    }

    /// No further attempt can succeed.
    pub fn fail(message: impl fmt::Display) -> Self {
        Self::new(Decision::Fail, message)
    }

    /// A person must look at it before anything else happens.
    pub fn pause(message: impl fmt::Display) -> Self {
        Self::new(Decision::Pause, message)
    }

    fn new(decision: Decision, message: impl fmt::Display) -> Self {
        Self { decision, class: CLASS.to_owned(), message: message.to_string() }
    }

    /// A word for programs, which the event of `on_failure` carries as `error.class`. It is a name as in definitions:
    /// lower-case letters, digits, `_`, `.` and `-`. Anything else in it becomes `_`.
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

    /// What shall follow.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The word for programs; `failed` unless said.
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

/// Decides what an error of somebody else means for the action.
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
    /// A person must look at it.
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
    fn the_author_decides_what_an_error_means() {
        let broken = || "x".parse::<u8>();
        assert_eq!(broken().or_retry().unwrap_err().decision(), Decision::Retry { after: None });
        assert_eq!(broken().or_fail().unwrap_err().decision(), Decision::Fail);
        assert_eq!(broken().or_pause().unwrap_err().decision(), Decision::Pause);
        let later = broken().or_retry_after(Duration::from_secs(3)).unwrap_err();
        assert_eq!(later.decision(), Decision::Retry { after: Some(Duration::from_secs(3)) });
        assert_eq!(later.to_string(), "failed: invalid digit found in string");
    }

    #[test]
    fn a_class_is_always_a_name() {
        let class = |text: &str| ActionError::fail("x").class(text).class_name().to_owned();
        assert_eq!(class("card_declined"), "card_declined");
        assert_eq!(class("Card declined!"), "card_declined_");
        assert_eq!(class("404"), "failed_404");
        assert_eq!(class(""), "failed");
    }
}
