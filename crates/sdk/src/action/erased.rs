//! Type erasure: wraps a typed function as JSON in and an attempt out.
//!
//! Input that does not fit the type will not fit it next time either, and neither will output that JSON
//! cannot represent: both are permanent failures, with the place of the error.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use millstream_model::attempt::AttemptOutcome;
use millstream_model::raw::RawJson;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::ActionContext;
use super::error::ActionError;
use super::outcome;

/// An action of any types.
pub(crate) type ActionFn =
    Arc<dyn Fn(ActionContext, RawJson) -> BoxFuture<'static, AttemptOutcome> + Send + Sync>;

/// Erases the types.
pub(crate) fn erase_action<F, I, O, Fut>(action: F) -> ActionFn
where
    F: Fn(ActionContext, I) -> Fut + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    Fut: Future<Output = Result<O, ActionError>> + Send + 'static,
{
    Arc::new(move |context, input| {
        // The future is created before the first await, so that captured values need not be shared.
        let performing = read_input::<I>(&input).map(|input| action(context, input));
        Box::pin(async move {
            let result = match performing {
                Ok(performing) => performing.await,
                Err(error) => Err(error),
            };
            outcome::attempt_of_result(result.and_then(|output| write_output(&output)))
        })
    })
}

pub(crate) fn read_input<I: DeserializeOwned>(input: &RawJson) -> Result<I, ActionError> {
    let mut json = serde_json::Deserializer::from_str(input.as_str());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = error.path().to_string();
        let place = if place == "." { String::new() } else { format!("{place}: ") };
        ActionError::fail(format!("{place}{}", error.into_inner())).class("input")
    })
}

pub(crate) fn write_output<O: Serialize>(output: &O) -> Result<RawJson, ActionError> {
    let text = serde_json::to_string(output).map_err(|error| error.to_string());
    text.and_then(|text| RawJson::parse(&text).map_err(|error| error.to_string()))
        .map_err(|error| ActionError::fail(error).class("output"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct OrderInput {
        #[expect(dead_code, reason = "only its type matters")]
        lines: Vec<OrderLine>,
    }

    #[derive(Debug, Deserialize)]
    struct OrderLine {
        #[expect(dead_code, reason = "only its type matters")]
        amount: u64,
    }

    #[test]
    fn action_input_error_names_place() {
        let input = RawJson::from_trusted_text(r#"{"lines":[{"amount":1},{"amount":"ten"}]}"#);
        let error = read_input::<OrderInput>(&input).unwrap_err();
        assert_eq!(error.class_name(), "input");
        assert!(error.message().starts_with("lines[1].amount: invalid type: string \"ten\""), "{error}");
        let error = read_input::<OrderInput>(&RawJson::from_trusted_text("[]")).unwrap_err();
        assert!(error.message().starts_with("invalid length 0"), "{error}");
    }

    #[test]
    fn unserialisable_action_output_fails() {
        let error = write_output(&std::collections::HashMap::from([((1, 2), 3)])).unwrap_err();
        assert_eq!((error.class_name(), error.decision()), ("output", crate::FailureDecision::Fail));
    }
}
