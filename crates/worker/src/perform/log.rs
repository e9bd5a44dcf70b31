//! `log`: one line in the worker's own log, with the key of the action beside it.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::id::ActionKey;
use millstream_model::raw::RawJson;

pub(crate) fn write_log_line(key: &ActionKey, text: &str) {
    tracing::info!(target: "millstream::action", { action.key = %key }, "{text}");
}

pub(crate) fn perform_log(key: &ActionKey, text: &str) -> AttemptOutcome {
    write_log_line(key, text);
    AttemptOutcome::Success { result: RawJson::null() }
}
