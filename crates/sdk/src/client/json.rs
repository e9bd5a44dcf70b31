//! Outgoing values: serialised where they are given, with errors reported when they are sent.
//!
//! A fallible builder step would be inconvenient, and a value that JSON cannot represent is rare.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::client_error::ClientError;

/// A value as JSON text, or the error.
#[derive(Debug, Clone)]
pub(crate) struct JsonText(Result<Box<RawValue>, String>);

impl JsonText {
    pub(crate) fn of_value(value: &impl Serialize) -> Self {
        Self(serde_json::value::to_raw_value(value).map_err(|error| error.to_string()))
    }

    pub(crate) fn get(&self) -> Result<&RawValue, ClientError> {
        match &self.0 {
            Ok(raw) => Ok(raw),
            Err(reason) => Err(ClientError::Unsendable(reason.clone())),
        }
    }
}

/// The JSON of an optional value.
pub(crate) fn get(json: Option<&JsonText>) -> Result<Option<&RawValue>, ClientError> {
    json.map(JsonText::get).transpose()
}

/// A request's body.
pub(crate) fn json_body(value: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(value).map_err(|error| ClientError::Unsendable(error.to_string()))
}
