//! `noop`: no work, but the whole way of lease, attempt and settlement. For tests and benches.

use millstream_core::action::Attempt;
use millstream_core::raw::RawJson;

pub(crate) fn perform(value: RawJson) -> Attempt {
    Attempt::Success { result: value }
}
