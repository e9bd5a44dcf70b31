//! Quota cache: the quotas of all tenants in one process, the rows of the store over its settings.
//!
//! Reading is one lookup and never waits for the store. A task of the process calls [`QuotaCache::refresh`]
//! every [`REFRESH_EVERY`]; every process sees a change that long after its commit. While the store is
//! unavailable the last read rows apply.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use millstream_model::id::TenantId;
use millstream_model::quota::{EffectiveQuota, QuotaSet, QuotaSettings};

use crate::StoreResult;
use crate::quota_store::{QuotaRevision, QuotaRows, QuotaStore};

/// Refresh interval. Every change is in force within 5 s.
pub const REFRESH_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct QuotaCache {
    settings: QuotaSettings,
    pages: RwLock<QuotaSnapshot>,
}

#[derive(Debug)]
struct QuotaSnapshot {
    revision: QuotaRevision,
    /// Tenants with a row or with settings of their own.
    own: HashMap<TenantId, Arc<EffectiveQuota>>,
    /// All others: no entry per tenant.
    others: Arc<EffectiveQuota>,
}

impl QuotaCache {
    /// Holds the settings alone until the first refresh.
    pub fn from_settings(settings: QuotaSettings) -> Self {
        let pages = QuotaSnapshot::build_snapshot(
            &settings,
            QuotaRows { revision: QuotaRevision::default(), rows: Vec::new() },
        );
        Self { settings, pages: RwLock::new(pages) }
    }

    pub fn effective_quota(&self, tenant: &TenantId) -> Arc<EffectiveQuota> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(pages.own.get(tenant).unwrap_or(&pages.others))
    }

    /// The quota of a tenant with this row, ignoring the cached row.
    pub fn quota_with(&self, tenant: &TenantId, row: Option<&QuotaSet>) -> EffectiveQuota {
        EffectiveQuota::from_layers(tenant, row, &self.settings)
    }

    /// Reads the rows, if they have changed.
    pub async fn refresh(&self, store: &dyn QuotaStore) -> StoreResult<()> {
        let known = self.pages.read().unwrap_or_else(PoisonError::into_inner).revision;
        if let Some(rows) = store.quotas_after(known).await? {
            let pages = QuotaSnapshot::build_snapshot(&self.settings, rows);
            *self.pages.write().unwrap_or_else(PoisonError::into_inner) = pages;
        }
        Ok(())
    }
}

impl QuotaSnapshot {
    fn build_snapshot(settings: &QuotaSettings, rows: QuotaRows) -> Self {
        let of = |tenant: &TenantId, row: Option<&QuotaSet>| {
            Arc::new(EffectiveQuota::from_layers(tenant, row, settings))
        };
        let mut own: HashMap<_, _> =
            settings.tenants.keys().map(|tenant| (tenant.clone(), of(tenant, None))).collect();
        for (tenant, row) in rows.rows {
            let quota = of(&tenant, Some(&row));
            own.insert(tenant, quota);
        }
        let every_tenant = QuotaSettings { tenants: Default::default(), ..settings.clone() };
        let others = Arc::new(EffectiveQuota::from_layers(&TenantId::default_tenant(), None, &every_tenant));
        Self { revision: rows.revision, own, others }
    }
}
