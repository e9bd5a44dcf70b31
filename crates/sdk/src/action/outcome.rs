//! Maps the end of an action to the engine's outcome.

use millstream_model::attempt::{ActionFailure as Told, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;

use super::error::{ActionError, FailureDecision};

pub(crate) fn attempt_of_result(result: Result<RawJson, ActionError>) -> AttemptOutcome {
    let error = match result {
        Ok(result) => return AttemptOutcome::Success { result },
        Err(error) => error,
    };
    match error.decision() {
        FailureDecision::Retry { after } => {
            AttemptOutcome::Transient { error: reported_error(&error), retry_after: after }
        }
        FailureDecision::Fail => AttemptOutcome::Permanent { error: reported_error(&error) },
        FailureDecision::Pause => AttemptOutcome::Pause { error: reported_error(&error) },
    }
}

fn reported_error(error: &ActionError) -> Told {
    // Not shortened here: the engine could not recognise the first half of a secret that was cut in two.
    let message = error.message().to_owned();
    // An invalid class name falls back to `failed`.
    let class = Name::parse(error.class_name()).map_or(ErrorClass::Failed, ErrorClass::named);
    Told { class, message, status: None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn engine_gets_the_authors_decision() {
        let wait = Duration::from_secs(3);
        let told = attempt_of_result(Err(ActionError::retry_after("later", wait)));
        assert!(
            matches!(told, AttemptOutcome::Transient { retry_after: Some(after), .. } if after == wait),
            "{told:?}"
        );
        let told = attempt_of_result(Err(ActionError::fail("no").class("card_declined")));
        let AttemptOutcome::Permanent { error } = told else { panic!("{told:?}") };
        assert_eq!((error.class.as_str(), error.message.as_str()), ("card_declined", "no"));
        assert!(matches!(attempt_of_result(Err(ActionError::pause("look"))), AttemptOutcome::Pause { .. }));
        assert!(matches!(attempt_of_result(Ok(RawJson::null())), AttemptOutcome::Success { .. }));
    }
}
