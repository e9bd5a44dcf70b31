//! Schedule timeouts, which span attempts: `schedule_to_start` and `schedule_to_close`.

use std::time::Duration;

use millstream_model::attempt::ActionFailure;
use millstream_model::duration;
use millstream_model::error_class::ErrorClass;
use millstream_model::time::Timestamp;

use crate::definition::ActionTimeouts;

/// The schedule timeout that an attempt starting now has missed. `attempt` counts from 1.
pub fn missed_timeout(
    timeouts: &ActionTimeouts,
    attempt: i32,
    ready_at: Timestamp,
    now: Timestamp,
) -> Option<ActionFailure> {
    let over = |limit: &Duration| now >= ready_at.plus(*limit);
    let message = if let Some(limit) = timeouts.schedule_to_close.filter(over) {
        format!(
            "no outcome within {} of becoming ready (schedule_to_close)",
            duration::format_duration(limit)
        )
    } else if let Some(limit) = timeouts.schedule_to_start.filter(|limit| attempt <= 1 && over(limit)) {
        format!("not started within {} (schedule_to_start)", duration::format_duration(limit))
    } else {
        return None;
    };
    Some(ActionFailure { class: ErrorClass::Schedule, message, status: None })
}

/// The remainder of `schedule_to_close`.
pub fn remaining_time(timeouts: &ActionTimeouts, ready_at: Timestamp, now: Timestamp) -> Option<Duration> {
    timeouts.schedule_to_close.map(|limit| ready_at.plus(limit).since(now))
}

/// The timeout of an attempt that starts now.
pub fn attempt_timeout(timeouts: &ActionTimeouts, ready_at: Timestamp, now: Timestamp) -> Duration {
    remaining_time(timeouts, ready_at, now)
        .map_or(timeouts.start_to_close, |left| left.min(timeouts.start_to_close))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(second))
    }

    const LIMITS: ActionTimeouts = ActionTimeouts {
        start_to_close: Duration::from_secs(30),
        schedule_to_start: Some(Duration::from_secs(5)),
        schedule_to_close: Some(Duration::from_secs(60)),
        heartbeat: None,
    };

    #[test]
    fn schedule_to_start_limits_first_attempt() {
        assert_eq!(missed_timeout(&LIMITS, 1, at(100), at(104)), None);
        let late = missed_timeout(&LIMITS, 1, at(100), at(105)).unwrap();
        assert_eq!(
            (late.class, late.message.as_str()),
            (ErrorClass::Schedule, "not started within 5s (schedule_to_start)")
        );
        assert_eq!(missed_timeout(&LIMITS, 2, at(100), at(105)), None);
    }

    #[test]
    fn schedule_to_close_limits_every_attempt() {
        assert!(missed_timeout(&LIMITS, 7, at(100), at(160)).is_some());
        assert_eq!(attempt_timeout(&LIMITS, at(100), at(150)), Duration::from_secs(10));
        assert_eq!(attempt_timeout(&LIMITS, at(100), at(101)), Duration::from_secs(30));
    }
}
