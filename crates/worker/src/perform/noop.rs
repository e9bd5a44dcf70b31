//! `noop`: no work, but the whole way of lease, attempt and settlement. For tests and benches.

use millstream_core::action::AttemptOutcome;
use millstream_core::raw::RawJson;

pub(crate) fn perform_noop(value: RawJson) -> AttemptOutcome {
    AttemptOutcome::Success { result: value }
}
