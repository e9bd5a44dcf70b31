//! Quotas of tenants, at the edge: rates, shares of what this process has, and counts of rows.
//!
//! A request costs one lookup of its tenant and a few atomic operations; counting rows is the work of a task
//! ([`follow`]). Rates and shares are of this process; counts are of the whole store, seconds old, with what this
//! process admitted since added to them ([`counts`]). What the engine produces does not pass here.

mod admission;
mod counts;
mod follow;
mod held;
mod rates;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use millstream_core::id::TenantId;
use millstream_core::quota::{EffectiveQuota, QuotaSet, QuotaSettings};
use millstream_store::quota_book::QuotaBook;
use millstream_store::quota_store::QuotaStore;

use crate::options::Limits;

pub(crate) use admission::HeldPlace;
pub(crate) use follow::follow;
pub(crate) use held::{HeldQuota, QuotaPermit};
pub(crate) use rates::RateQuota;

pub(crate) struct TenantQuotas {
    book: QuotaBook,
    store: Arc<dyn QuotaStore>,
    limits: Limits,
    tenants: RwLock<HashMap<TenantId, Arc<TenantUse>>>,
    began: Instant,
}

/// What one tenant uses of this process, and what this process knows of its rows.
#[derive(Debug, Default)]
pub(crate) struct TenantUse {
    held: held::HeldCounts,
    rates: rates::Buckets,
    counts: counts::RowCounts,
}

/// Tenants without any use are forgotten beyond so many.
const REMEMBERED: usize = 10_000;

impl TenantQuotas {
    pub(crate) fn of(store: Arc<dyn QuotaStore>, settings: QuotaSettings, limits: &Limits) -> Self {
        Self {
            book: QuotaBook::of(settings),
            store,
            limits: limits.clone(),
            tenants: RwLock::default(),
            began: Instant::now(),
        }
    }

    pub(crate) fn quota(&self, tenant: &TenantId) -> Arc<EffectiveQuota> {
        self.book.quota(tenant)
    }

    /// The quota of a tenant whose row is `row`, whether or not this process has read it yet.
    pub(crate) fn quota_with(&self, tenant: &TenantId, row: Option<&QuotaSet>) -> EffectiveQuota {
        self.book.quota_with(tenant, row)
    }

    fn usage(&self, tenant: &TenantId) -> Arc<TenantUse> {
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

    fn all(&self) -> Vec<(TenantId, Arc<TenantUse>)> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().map(|(tenant, usage)| (tenant.clone(), Arc::clone(usage))).collect()
    }
}

impl std::fmt::Debug for TenantQuotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantQuotas").finish_non_exhaustive()
    }
}
