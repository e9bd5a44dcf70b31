//! The log lines of `log` actions: written by commits, and by attempts that had to wait for results.

use millstream_model::id::ActionKey;

pub(crate) fn write_log_line(key: &ActionKey, text: &str) {
    tracing::info!(target: "millstream::action", { action.key = %key }, "{text}");
}
