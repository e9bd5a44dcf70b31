//! `noop`: no work, but the whole way of lease, attempt and settlement. For tests and benches.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::raw::RawJson;

pub(crate) fn perform_noop(value: RawJson) -> AttemptOutcome {
    AttemptOutcome::Success { result: value }
}
