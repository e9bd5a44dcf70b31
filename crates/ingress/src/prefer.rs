//! The `Prefer` header (RFC 7240): `wait=5`, `until=applied`, `respond-async`.
//!
//! Unknown preferences are ignored, as the RFC requires; an invalid value of a known preference is an
//! error, because the caller would otherwise assume that it was honoured.

use std::time::Duration;

use axum::http::HeaderMap;
use millstream_model::status::EventStatus;

use crate::http::problem::ApiProblem;

/// The caller's preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PreferHeader {
    pub(crate) wait: WaitPreference,
    pub(crate) until: WaitUntil,
}

/// Whether to wait for an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WaitPreference {
    /// No preference: the definition's mode decides.
    #[default]
    Unsaid,
    /// `respond-async`: answer at once, in any mode of the definition.
    Never,
    For(Duration),
}

/// The state that ends the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WaitUntil {
    /// The event has its final status.
    #[default]
    Final,
    /// The transition of the event is committed.
    Applied,
}

impl WaitUntil {
    pub(crate) fn is_met(self, status: EventStatus) -> bool {
        match self {
            Self::Final => status.is_final(),
            Self::Applied => status.is_final() || status.is_applied(),
        }
    }
}

impl PreferHeader {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiProblem> {
        let mut prefer = Self::default();
        for header in headers.get_all("prefer") {
            let text =
                header.to_str().map_err(|_| ApiProblem::bad_request("the Prefer header is not text"))?;
            for part in text.split([',', ';']) {
                prefer.take_preference(part.trim())?;
            }
        }
        Ok(prefer)
    }

    fn take_preference(&mut self, preference: &str) -> Result<(), ApiProblem> {
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "wait" => {
                let seconds: f64 =
                    value.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds)).ok_or_else(
                        || bad_preference(preference, "wait is a number of seconds, as in wait=5"),
                    )?;
                self.wait = WaitPreference::For(Duration::from_secs_f64(seconds));
            }
            "until" => {
                self.until = match value {
                    "applied" => WaitUntil::Applied,
                    "completed" | "final" => WaitUntil::Final,
                    _ => return Err(bad_preference(preference, "until is \"applied\" or \"completed\"")),
                };
            }
            "respond-async" => self.wait = WaitPreference::Never,
            _ => {}
        }
        Ok(())
    }

    /// The granted wait, given the default of the definition.
    pub(crate) fn granted_wait(self, by_default: Option<Duration>, max: Duration) -> Option<Duration> {
        match self.wait {
            WaitPreference::Unsaid => by_default.map(|wait| wait.min(max)),
            WaitPreference::Never => None,
            WaitPreference::For(wait) => Some(wait.min(max)),
        }
    }

    /// The value of `Preference-Applied`, when the caller requested a wait and `granted` was applied.
    pub(crate) fn preference_applied(self, granted: Duration) -> Option<String> {
        match (self.wait, self.until) {
            (WaitPreference::Unsaid | WaitPreference::Never, WaitUntil::Final | WaitUntil::Applied) => None,
            (WaitPreference::For(_), WaitUntil::Final) => Some(format!("wait={}", granted.as_secs_f64())),
            (WaitPreference::For(_), WaitUntil::Applied) => {
                Some(format!("wait={}, until=applied", granted.as_secs_f64()))
            }
        }
    }
}

fn bad_preference(preference: &str, message: &str) -> ApiProblem {
    ApiProblem::bad_request(format!("Prefer: {preference}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<PreferHeader, ApiProblem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("prefer", value.parse().unwrap());
        }
        PreferHeader::of(&headers)
    }

    #[test]
    fn prefer_header_reads_all_preferences() {
        let both =
            PreferHeader { wait: WaitPreference::For(Duration::from_secs(5)), until: WaitUntil::Applied };
        assert_eq!(of(&["wait=5, until=applied"]).unwrap(), both);
        assert_eq!(of(&["wait=5", "return=minimal, until=\"applied\""]).unwrap(), both);
        assert_eq!(of(&["Wait=5; until=applied"]).unwrap(), both);
    }

    #[test]
    fn invalid_preference_is_an_error() {
        for value in ["wait", "wait=", "wait=soon", "wait=-1", "wait=NaN", "wait=1e99", "until=later"] {
            assert!(of(&[value]).is_err(), "{value}");
        }
    }

    #[test]
    fn granted_wait_is_capped() {
        let max = Duration::from_secs(60);
        assert_eq!(of(&["wait=600"]).unwrap().granted_wait(None, max), Some(max));
        assert_eq!(of(&[]).unwrap().granted_wait(None, max), None);
        assert_eq!(of(&[]).unwrap().granted_wait(Some(Duration::from_secs(10)), max).unwrap().as_secs(), 10);
        assert_eq!(of(&["respond-async"]).unwrap().granted_wait(Some(max), max), None);
    }

    #[test]
    fn applied_wait_ends_at_transition() {
        assert!(WaitUntil::Applied.is_met(EventStatus::Processing));
        assert!(!WaitUntil::Final.is_met(EventStatus::Processing));
        assert!(WaitUntil::Applied.is_met(EventStatus::Rejected));
        assert!(!WaitUntil::Applied.is_met(EventStatus::Deferred));
    }
}
