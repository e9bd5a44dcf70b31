//! Rate limits of this process (token buckets): requests and events per second, each with a burst.

use std::sync::{Mutex, PoisonError};

use millstream_model::id::TenantId;
use millstream_model::quota::{BucketRate, QuotaName, QuotaRefusal, TokenBucket};

use super::TenantQuotas;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RateQuota {
    Requests,
    /// Repeats (requests with an idempotency key) beyond the request rate: a second bucket of the same
    /// size.
    Repeats,
    Events,
}

impl RateQuota {
    const fn quota_names(self) -> (QuotaName, QuotaName) {
        match self {
            Self::Requests | Self::Repeats => (QuotaName::RequestsPerSecond, QuotaName::RequestsBurst),
            Self::Events => (QuotaName::EventsPerSecond, QuotaName::EventsBurst),
        }
    }
}

/// The token buckets of a tenant; empty while the rate is unlimited.
#[derive(Debug, Default)]
pub(super) struct TenantTokenBuckets {
    requests: Mutex<Option<TokenBucket>>,
    repeats: Mutex<Option<TokenBucket>>,
    events: Mutex<Option<TokenBucket>>,
}

impl TenantQuotas {
    /// Takes `tokens` from the bucket, or returns when they are available.
    pub(crate) fn take_tokens(
        &self,
        tenant: &TenantId,
        rate: RateQuota,
        tokens: u64,
    ) -> Result<(), QuotaRefusal> {
        let (name, burst) = rate.quota_names();
        let all = self.quota_of(tenant);
        let quota = all.get(name);
        let Some(per_second) = quota.value.at_most() else { return Ok(()) };
        let burst = all.value(burst).at_most().unwrap_or(per_second);
        let fill = BucketRate { per_second, burst };
        let (usage, now) = (self.usage_of(tenant), self.began.elapsed());
        let bucket = match rate {
            RateQuota::Requests => &usage.rates.requests,
            RateQuota::Repeats => &usage.rates.repeats,
            RateQuota::Events => &usage.rates.events,
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = bucket.get_or_insert_with(|| TokenBucket::new_full(fill, now));
        bucket.take(fill, tokens, now).map_err(|wait| QuotaRefusal::with_retry(name, quota, wait))
    }
}
