//! `wait`: a delay until a given time.

use millstream_core::action::AttemptOutcome;
use millstream_core::machine::WaitInput;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use super::attempt_contract::PerformOutcome;

pub(crate) fn perform_wait(input: WaitInput, now: Timestamp) -> PerformOutcome {
    if now < input.until {
        return PerformOutcome::Postponed { at: input.until };
    }
    PerformOutcome::Attempt(AttemptOutcome::Success { result: RawJson::from_value(&input) })
}
