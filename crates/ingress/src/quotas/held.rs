//! Tenants' shares of this process's resources (concurrency limits): requests in flight, bytes of bodies,
//! waits and streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_model::id::TenantId;
use millstream_model::quota::{QuotaName, QuotaRefusal};

use super::{TenantQuotas, TenantUse};

/// A resource that a tenant holds temporarily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldQuota {
    Requests,
    /// In KiB.
    BodyBytes,
    Waits,
    Streams,
}

impl HeldQuota {
    pub(crate) const ALL: &'static [HeldQuota] =
        &[Self::Requests, Self::BodyBytes, Self::Waits, Self::Streams];

    pub(crate) const fn name(self) -> QuotaName {
        match self {
            Self::Requests => QuotaName::RequestsInFlight,
            Self::BodyBytes => QuotaName::BodyBytesInFlight,
            Self::Waits => QuotaName::Waits,
            Self::Streams => QuotaName::Streams,
        }
    }

    /// Quota units per held unit.
    const fn unit(self) -> u64 {
        match self {
            Self::BodyBytes => 1_024,
            Self::Requests | Self::Waits | Self::Streams => 1,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct HeldCounts {
    requests: AtomicU64,
    body_kib: AtomicU64,
    waits: AtomicU64,
    streams: AtomicU64,
}

impl HeldCounts {
    const fn of(&self, held: HeldQuota) -> &AtomicU64 {
        match held {
            HeldQuota::Requests => &self.requests,
            HeldQuota::BodyBytes => &self.body_kib,
            HeldQuota::Waits => &self.waits,
            HeldQuota::Streams => &self.streams,
        }
    }
}

/// The fraction of the process reserved for acts that are admitted beyond the quota: 1/8.
const RESERVE: u64 = 8;

/// A part of a tenant's share; released on drop.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    usage: Arc<TenantUse>,
    held: HeldQuota,
    amount: u64,
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.usage.held.of(self.held).fetch_sub(self.amount, Ordering::AcqRel);
    }
}

impl QuotaPermit {
    /// Merges both into one.
    pub(crate) fn merge_permit(&mut self, mut other: QuotaPermit) {
        debug_assert!(Arc::ptr_eq(&self.usage, &other.usage) && self.held == other.held);
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl TenantQuotas {
    /// Takes `amount`, or refuses because the tenant holds its whole share.
    pub(crate) fn hold_share(
        &self,
        tenant: &TenantId,
        held: HeldQuota,
        amount: u64,
    ) -> Result<QuotaPermit, QuotaRefusal> {
        self.hold_within(tenant, held, amount, 0)
    }

    /// The same for acts that are not refused at the quota: beyond it the tenant may use an eighth of the
    /// process's capacity.
    pub(crate) fn hold_reserve(
        &self,
        tenant: &TenantId,
        held: HeldQuota,
        amount: u64,
    ) -> Result<QuotaPermit, QuotaRefusal> {
        self.hold_within(tenant, held, amount, self.process_capacity(held) / RESERVE)
    }

    fn hold_within(
        &self,
        tenant: &TenantId,
        held: HeldQuota,
        amount: u64,
        beyond: u64,
    ) -> Result<QuotaPermit, QuotaRefusal> {
        let quota = self.quota_of(tenant).get(held.name());
        let most = quota.value.of_capacity(self.process_capacity(held)).saturating_add(beyond) / held.unit();
        let usage = self.usage_of(tenant);
        let add = |now: u64| now.checked_add(amount).filter(|sum| *sum <= most);
        match usage.held.of(held).fetch_update(Ordering::AcqRel, Ordering::Acquire, add) {
            Ok(_) => Ok(QuotaPermit { usage, held, amount }),
            Err(_) => Err(QuotaRefusal::with_retry(held.name(), quota, Duration::from_secs(1))),
        }
    }

    /// The amount that the tenant holds now, in the unit of the quota.
    pub(crate) fn held_amount(&self, tenant: &TenantId, held: HeldQuota) -> u64 {
        self.usage_of(tenant).held.of(held).load(Ordering::Acquire).saturating_mul(held.unit())
    }

    /// Capacity of this process, for all tenants together.
    pub(crate) fn process_capacity(&self, held: HeldQuota) -> u64 {
        let places = match held {
            HeldQuota::Requests => self.limits.in_flight,
            HeldQuota::BodyBytes => self.limits.body_bytes_in_flight,
            HeldQuota::Waits => self.limits.waits,
            HeldQuota::Streams => self.limits.tails,
        };
        u64::try_from(places).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::quota::QuotaSettings;
    use millstream_store_memory::MemoryStore;

    use super::*;
    use crate::options::IngressLimits;

    #[test]
    fn tenant_share_leaves_a_quarter() {
        let limits = IngressLimits { tails: 8, body_bytes_in_flight: 64 * 1024, ..IngressLimits::default() };
        let quotas = TenantQuotas::of(MemoryStore::new(), QuotaSettings::default(), &limits);
        let (noisy, quiet) = (TenantId::parse("noisy").unwrap(), TenantId::parse("quiet").unwrap());
        let mut streams: Vec<_> =
            std::iter::from_fn(|| quotas.hold_share(&noisy, HeldQuota::Streams, 1).ok()).collect();
        assert_eq!(streams.len(), 6);
        let refusal = quotas.hold_share(&noisy, HeldQuota::Streams, 1).unwrap_err();
        assert_eq!(refusal.to_string(), "the tenant is at its quota streams = 3/4 (built in)");
        assert!(quotas.hold_share(&quiet, HeldQuota::Streams, 1).is_ok());
        streams.pop();
        assert!(quotas.hold_share(&noisy, HeldQuota::Streams, 1).is_ok());

        let mut bytes = quotas.hold_share(&noisy, HeldQuota::BodyBytes, 40).unwrap();
        bytes.merge_permit(quotas.hold_share(&noisy, HeldQuota::BodyBytes, 8).unwrap());
        assert!(quotas.hold_share(&noisy, HeldQuota::BodyBytes, 1).is_err());
        assert_eq!(quotas.held_amount(&noisy, HeldQuota::BodyBytes), 48 * 1024);
        drop(bytes);
        assert_eq!(quotas.held_amount(&noisy, HeldQuota::BodyBytes), 0);
    }
}
