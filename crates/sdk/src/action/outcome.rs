//! Maps the end of an action to the engine's outcome.

use millstream_core::action::{ActionError as Told, Attempt, ErrorClass};
use millstream_core::id::Name;
use millstream_core::raw::RawJson;

use super::error::{ActionError, Decision};

pub(crate) fn attempt(result: Result<RawJson, ActionError>) -> Attempt {
    let error = match result {
        Ok(result) => return Attempt::Success { result },
        Err(error) => error,
    };
    match error.decision() {
        Decision::Retry { after } => Attempt::Transient { error: told(&error), retry_after: after },
        Decision::Fail => Attempt::Permanent { error: told(&error) },
        Decision::Pause => Attempt::Pause { error: told(&error) },
    }
}

fn told(error: &ActionError) -> Told {
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
    fn what_the_author_decided_is_what_the_engine_is_told() {
        let wait = Duration::from_secs(3);
        let told = attempt(Err(ActionError::retry_after("later", wait)));
        assert!(
            matches!(told, Attempt::Transient { retry_after: Some(after), .. } if after == wait),
            "{told:?}"
        );
        let told = attempt(Err(ActionError::fail("no").class("card_declined")));
        let Attempt::Permanent { error } = told else { panic!("{told:?}") };
        assert_eq!((error.class.as_str(), error.message.as_str()), ("card_declined", "no"));
        assert!(matches!(attempt(Err(ActionError::pause("look"))), Attempt::Pause { .. }));
        assert!(matches!(attempt(Ok(RawJson::null())), Attempt::Success { .. }));
    }
}
