//! The refusal of a request beyond a quota: the same message over HTTP, gRPC and in outcomes of actions.

use std::fmt;
use std::time::Duration;

use super::effective::{QuotaSource, QuotaSourced};
use super::name::QuotaName;
use super::value::QuotaValue;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaRefusal {
    pub name: QuotaName,
    pub value: QuotaValue,
    pub source: QuotaSource,
    /// For a rate or a share: when to retry. `None` for a count, which does not change by waiting.
    pub retry_after: Option<Duration>,
}

impl QuotaRefusal {
    /// A refusal by a rate limit, or by a limit on work in flight.
    pub fn with_retry(name: QuotaName, quota: QuotaSourced, retry_after: Duration) -> Self {
        Self { name, value: quota.value, source: quota.source, retry_after: Some(retry_after) }
    }

    /// A refusal by a count.
    pub fn without_retry(name: QuotaName, quota: QuotaSourced) -> Self {
        Self { name, value: quota.value, source: quota.source, retry_after: None }
    }
}

impl fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, source, .. } = self;
        let source = match source {
            QuotaSource::Row => "set for the tenant",
            QuotaSource::TenantSettings => "from the tenant's settings",
            QuotaSource::Settings => "from the settings",
            QuotaSource::BuiltIn => "built in",
        };
        write!(f, "the tenant is at its quota {name} = {} ({source})", value.to_text(*name))
    }
}

impl std::error::Error for QuotaRefusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_refusal_names_value_and_source() {
        let quota = QuotaSourced { value: QuotaValue::AtMost(7), source: QuotaSource::Row };
        let refusal = QuotaRefusal::without_retry(QuotaName::Devices, quota);
        assert_eq!(refusal.to_string(), "the tenant is at its quota devices = 7 (set for the tenant)");
        let quota = QuotaSourced { value: QuotaName::Waits.built_in(), source: QuotaSource::BuiltIn };
        let refusal = QuotaRefusal::with_retry(QuotaName::Waits, quota, Duration::from_secs(1));
        assert_eq!(refusal.to_string(), "the tenant is at its quota waits = 3/4 (built in)");
    }
}
