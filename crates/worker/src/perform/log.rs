//! `log`: one line in the worker's own log, with the key of the action beside it.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::id::ActionKey;
use millstream_model::raw::RawJson;

use crate::action_log::write_log_line;

pub(crate) fn perform_log(key: &ActionKey, text: &str) -> AttemptOutcome {
    write_log_line(key, text);
    AttemptOutcome::Success { result: RawJson::null() }
}
