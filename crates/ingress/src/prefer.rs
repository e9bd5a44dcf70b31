//! The `Prefer` header (RFC 7240): `wait=5`, `until=applied`, `respond-async`.
//!
//! Unknown preferences are ignored, as the RFC requires; an invalid value of a known preference is an
//! error, because the caller would otherwise assume that it was honoured.

use std::time::Duration;

use axum::http::HeaderMap;
use millstream_core::status::EventStatus;

use crate::http::problem::Problem;

/// The caller's preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Prefer {
    pub(crate) wait: Wait,
    pub(crate) until: Until,
}

/// Whether to wait for an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wait {
    /// No preference: the definition's mode decides.
    #[default]
    Unsaid,
    /// `respond-async`: answer at once, in any mode of the definition.
    Never,
    For(Duration),
}

/// The state that ends the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Until {
    /// The event has its final status.
    #[default]
    Final,
    /// The transition of the event is committed.
    Applied,
}

impl Until {
    pub(crate) fn is_met(self, status: EventStatus) -> bool {
        match self {
            Self::Final => status.is_final(),
            Self::Applied => status.is_final() || status.is_applied(),
        }
    }
}

impl Prefer {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut prefer = Self::default();
        for header in headers.get_all("prefer") {
            let text = header.to_str().map_err(|_| Problem::bad_request("the Prefer header is not text"))?;
            for part in text.split([',', ';']) {
                prefer.take(part.trim())?;
            }
        }
        Ok(prefer)
    }

    fn take(&mut self, preference: &str) -> Result<(), Problem> {
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "wait" => {
                let seconds: f64 = value
                    .parse()
                    .ok()
                    .filter(|seconds| (0.0..=86_400.0).contains(seconds))
                    .ok_or_else(|| bad(preference, "wait is a number of seconds, as in wait=5"))?;
                self.wait = Wait::For(Duration::from_secs_f64(seconds));
            }
            "until" => {
                self.until = match value {
                    "applied" => Until::Applied,
                    "completed" | "final" => Until::Final,
                    _ => return Err(bad(preference, "until is \"applied\" or \"completed\"")),
                };
            }
            "respond-async" => self.wait = Wait::Never,
            _ => {}
        }
        Ok(())
    }

    /// The granted wait, given the default of the definition.
    pub(crate) fn patience(self, by_default: Option<Duration>, max: Duration) -> Option<Duration> {
        match self.wait {
            Wait::Unsaid => by_default.map(|wait| wait.min(max)),
            Wait::Never => None,
            Wait::For(wait) => Some(wait.min(max)),
        }
    }

    /// The value of `Preference-Applied`, when the caller requested a wait and `granted` was applied.
    pub(crate) fn applied(self, granted: Duration) -> Option<String> {
        match (self.wait, self.until) {
            (Wait::Unsaid | Wait::Never, Until::Final | Until::Applied) => None,
            (Wait::For(_), Until::Final) => Some(format!("wait={}", granted.as_secs_f64())),
            (Wait::For(_), Until::Applied) => Some(format!("wait={}, until=applied", granted.as_secs_f64())),
        }
    }
}

fn bad(preference: &str, message: &str) -> Problem {
    Problem::bad_request(format!("Prefer: {preference}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<Prefer, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("prefer", value.parse().unwrap());
        }
        Prefer::of(&headers)
    }

    #[test]
    fn reads_both_preferences_in_one_header_or_two() {
        let both = Prefer { wait: Wait::For(Duration::from_secs(5)), until: Until::Applied };
        assert_eq!(of(&["wait=5, until=applied"]).unwrap(), both);
        assert_eq!(of(&["wait=5", "return=minimal, until=\"applied\""]).unwrap(), both);
        assert_eq!(of(&["Wait=5; until=applied"]).unwrap(), both);
    }

    #[test]
    fn a_value_that_cannot_be_read_is_an_error() {
        for value in ["wait", "wait=", "wait=soon", "wait=-1", "wait=NaN", "wait=1e99", "until=later"] {
            assert!(of(&[value]).is_err(), "{value}");
        }
    }

    #[test]
    fn the_longest_wait_is_granted_at_most() {
        let max = Duration::from_secs(60);
        assert_eq!(of(&["wait=600"]).unwrap().patience(None, max), Some(max));
        assert_eq!(of(&[]).unwrap().patience(None, max), None);
        assert_eq!(of(&[]).unwrap().patience(Some(Duration::from_secs(10)), max).unwrap().as_secs(), 10);
        assert_eq!(of(&["respond-async"]).unwrap().patience(Some(max), max), None);
    }

    #[test]
    fn applied_is_met_by_a_transition_and_by_every_end() {
        assert!(Until::Applied.is_met(EventStatus::Processing));
        assert!(!Until::Final.is_met(EventStatus::Processing));
        assert!(Until::Applied.is_met(EventStatus::Rejected));
        assert!(!Until::Applied.is_met(EventStatus::Deferred));
    }
}
