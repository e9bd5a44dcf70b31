//! What is said to a tenant that is at a quota: the same words over HTTP, gRPC and in outcomes of actions.

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
    /// Of a rate or a share: when it is worth trying again. `None` of a count, which waiting alone does not change.
    pub retry_after: Option<Duration>,
}

impl QuotaRefusal {
    /// Of a rate, or of what is in flight.
    pub fn passing(name: QuotaName, quota: QuotaSourced, retry_after: Duration) -> Self {
        Self { name, value: quota.value, source: quota.source, retry_after: Some(retry_after) }
    }

    /// Of a count.
    pub fn lasting(name: QuotaName, quota: QuotaSourced) -> Self {
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
        write!(f, "the tenant is at its quota {name} = {} ({source})", value.text(*name))
    }
}

impl std::error::Error for QuotaRefusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_quota_its_value_and_its_source() {
        let quota = QuotaSourced { value: QuotaValue::AtMost(7), source: QuotaSource::Row };
        let refusal = QuotaRefusal::lasting(QuotaName::Devices, quota);
        assert_eq!(refusal.to_string(), "the tenant is at its quota devices = 7 (set for the tenant)");
        let quota = QuotaSourced { value: QuotaName::Waits.built_in(), source: QuotaSource::BuiltIn };
        let refusal = QuotaRefusal::passing(QuotaName::Waits, quota, Duration::from_secs(1));
        assert_eq!(refusal.to_string(), "the tenant is at its quota waits = 3/4 (built in)");
    }
}
