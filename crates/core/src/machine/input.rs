//! The rendered input of an action: what is stored, and what the worker performs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::definition::Method;
use crate::raw::RawJson;

/// Externally tagged: `{"http": {…}}`, `{"log": "text"}`, `{"noop": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionInput {
    Http(HttpRequest),
    Log(String),
    /// The value is the action's result.
    Noop(RawJson),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    pub method: Method,
    pub url: String,
    /// Names in lower case, values without control characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// `None`: no body is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RawJson>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_as_it_was_written() {
        let request = HttpRequest {
            method: Method::Post,
            url: "http://127.0.0.1/x".to_owned(),
            headers: BTreeMap::from([("x-a".to_owned(), "1".to_owned())]),
            body: Some(RawJson::parse(r#"{"b":1.50}"#).unwrap()),
        };
        let inputs = [
            ActionInput::Http(request.clone()),
            ActionInput::Http(HttpRequest { body: None, headers: BTreeMap::new(), ..request }),
            ActionInput::Log("hello".to_owned()),
            ActionInput::Noop(RawJson::null()),
        ];
        for input in inputs {
            assert_eq!(RawJson::of(&input).decode::<ActionInput>().unwrap(), input);
        }
    }

    #[test]
    fn the_stored_shape_is_fixed() {
        assert_eq!(RawJson::of(&ActionInput::Log("hi".to_owned())).as_str(), r#"{"log":"hi"}"#);
        assert_eq!(RawJson::of(&ActionInput::Noop(RawJson::null())).as_str(), r#"{"noop":null}"#);
    }
}
