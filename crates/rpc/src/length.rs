//! Conversion of durations and timestamps.

use std::time::Duration;

use millstream_model::duration;
use millstream_model::time::Timestamp;

use crate::path::{FieldPath, MessageFaults};

pub fn length_out(length: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    let nanos = i32::try_from(length.subsec_nanos()).unwrap_or(0);
    prost_types::Duration { seconds, nanos }
}

/// The rules of JSON durations: longer than zero, whole milliseconds, at most 100 years.
pub(crate) fn length_in(
    given: &prost_types::Duration,
    at: &FieldPath<'_>,
    faults: &mut MessageFaults,
) -> Option<Duration> {
    match check_length(given) {
        Ok(length) => Some(length),
        Err(why) => {
            faults.add(at, why);
            None
        }
    }
}

fn check_length(given: &prost_types::Duration) -> Result<Duration, &'static str> {
    let (seconds, nanos) = (u64::try_from(given.seconds), u32::try_from(given.nanos));
    let (Ok(seconds), Ok(nanos @ ..=999_999_999)) = (seconds, nanos) else {
        return Err("must not be negative, and its nanos must be less than a second");
    };
    match Duration::new(seconds, nanos) {
        Duration::ZERO => Err("must be greater than zero"),
        length if length > duration::MAX => Err("is longer than 100 years"),
        _ if !nanos.is_multiple_of(1_000_000) => Err("must be whole milliseconds"),
        length => Ok(length),
    }
}

pub fn time_out(time: Timestamp) -> prost_types::Timestamp {
    let millis = time.as_millis();
    let nanos = i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or(0);
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for length in [Duration::from_millis(1), Duration::from_millis(90_250), duration::MAX] {
            assert_eq!(check_length(&length_out(length)), Ok(length));
        }
    }

    #[test]
    fn invalid_durations_are_refused() {
        let given = |seconds, nanos| check_length(&prost_types::Duration { seconds, nanos });
        assert!(given(0, 0).is_err());
        assert!(given(-1, 0).is_err());
        assert!(given(0, -1).is_err());
        assert!(given(0, 1_500_000).is_err());
        assert!(given(1, 1_000_000_000).is_err());
        assert!(given(i64::MAX, 999_999_999).is_err());
    }

    #[test]
    fn negative_timestamps_have_positive_nanos() {
        let time = time_out(Timestamp::from_millis(-1));
        assert_eq!((time.seconds, time.nanos), (-1, 999_000_000));
    }
}
