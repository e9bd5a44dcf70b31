//! `log`: one line in the worker's own log, with the key of the action beside it.

use millstream_core::action::Attempt;
use millstream_core::id::ActionKey;
use millstream_core::raw::RawJson;

pub(crate) fn write(key: &ActionKey, text: &str) {
    tracing::info!(target: "millstream::action", { action.key = %key }, "{text}");
}

pub(crate) fn perform(key: &ActionKey, text: &str) -> Attempt {
    write(key, text);
    Attempt::Success { result: RawJson::null() }
}
