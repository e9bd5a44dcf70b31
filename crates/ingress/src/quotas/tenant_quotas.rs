//! Quotas and usage of all tenants that this process has seen.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use millstream_model::id::TenantId;
use millstream_model::quota::{EffectiveQuota, QuotaSet, QuotaSettings};
use millstream_store::quota_cache::QuotaCache;
use millstream_store::quota_store::QuotaStore;

use super::{counts, held, rates};
use crate::options::IngressLimits;

pub(crate) struct TenantQuotas {
    pub(super) book: QuotaCache,
    pub(super) store: Arc<dyn QuotaStore>,
    pub(super) limits: IngressLimits,
    tenants: RwLock<HashMap<TenantId, Arc<TenantUse>>>,
    pub(super) began: Instant,
}

/// Usage of one tenant in this process, and its row counts.
#[derive(Debug, Default)]
pub(crate) struct TenantUse {
    pub(super) held: held::HeldCounts,
    pub(super) rates: rates::TenantTokenBuckets,
    pub(super) counts: counts::RowCounts,
}

/// Beyond this number, tenants without any use are dropped.
const REMEMBERED: usize = 10_000;

impl TenantQuotas {
    pub(crate) fn of(store: Arc<dyn QuotaStore>, settings: QuotaSettings, limits: &IngressLimits) -> Self {
        Self {
            book: QuotaCache::from_settings(settings),
            store,
            limits: limits.clone(),
            tenants: RwLock::default(),
            began: Instant::now(),
        }
    }

    pub(crate) fn quota_of(&self, tenant: &TenantId) -> Arc<EffectiveQuota> {
        self.book.effective_quota(tenant)
    }

    /// The quota of a tenant with the given row, whether or not this process has read that row yet.
    pub(crate) fn quota_with_row(&self, tenant: &TenantId, row: Option<&QuotaSet>) -> EffectiveQuota {
        self.book.quota_with(tenant, row)
    }

    pub(super) fn usage_of(&self, tenant: &TenantId) -> Arc<TenantUse> {
        let known = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(tenant) {
            return Arc::clone(known);
        }
        drop(known);
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= REMEMBERED {
            tenants.retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }

    pub(super) fn all_tenants(&self) -> Vec<(TenantId, Arc<TenantUse>)> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().map(|(tenant, usage)| (tenant.clone(), Arc::clone(usage))).collect()
    }
}

impl std::fmt::Debug for TenantQuotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantQuotas").finish_non_exhaustive()
    }
}
