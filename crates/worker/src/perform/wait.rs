//! `wait`: a delay until a given time.

use millstream_core::action::Attempt;
use millstream_core::machine::WaitInput;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use super::errand::Done;

pub(crate) fn perform(input: WaitInput, now: Timestamp) -> Done {
    if now < input.until {
        return Done::Postponed { at: input.until };
    }
    Done::Attempt(Attempt::Success { result: RawJson::of(&input) })
}
