//! `wait`: a delay until a given time.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::machine::WaitInput;

use super::attempt_contract::PerformOutcome;

pub(crate) fn perform_wait(input: WaitInput, now: Timestamp) -> PerformOutcome {
    if now < input.until {
        return PerformOutcome::postponed(input.until);
    }
    PerformOutcome::Attempt(AttemptOutcome::Success { result: RawJson::from_value(&input) })
}
