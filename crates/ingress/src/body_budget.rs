//! Memory budget of request and answer bodies, shared by all calls of both transports.
//!
//! The budget keeps a thousand clients with 8 MiB each from becoming 8 GiB. The bytes are released when the
//! request is answered; an exhausted budget refuses the request as busy.

use std::sync::Arc;

use axum::http::Extensions;
use millstream_model::id::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::TenantCaller;
use crate::quotas::{HeldQuota, QuotaPermit, RequestClass, TenantQuotas};
use crate::refusal::{RefusalKind, RequestRefusal};

/// The bytes that all bodies together may hold, in units of 1 KiB.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    process: Arc<Semaphore>,
    quotas: Arc<TenantQuotas>,
    /// The tenant whose share is charged as well.
    tenant: Option<TenantId>,
}

/// Bytes charged to the budgets of the process and of the tenant; released on drop.
#[derive(Debug)]
pub(crate) struct PaidBytes {
    process: OwnedSemaphorePermit,
    tenant: Option<QuotaPermit>,
}

impl PaidBytes {
    /// Merges both into one. Both belong to one request, so either both have a tenant or neither.
    pub(crate) fn merge_charge(&mut self, more: PaidBytes) {
        self.process.merge(more.process);
        match (&mut self.tenant, more.tenant) {
            (Some(paid), Some(more)) => paid.merge_permit(more),
            (paid @ None, more) => *paid = more,
            (Some(_), None) => {}
        }
    }
}

impl BodyBudget {
    pub(crate) fn of(bytes: usize, quotas: Arc<TenantQuotas>) -> Self {
        let permits = (bytes / 1024).min(Semaphore::MAX_PERMITS);
        Self { process: Arc::new(Semaphore::new(permits)), quotas, tenant: None }
    }

    /// The same budget, charging the tenant's share as well.
    pub(crate) fn for_tenant(&self, tenant: &TenantId) -> Self {
        Self { tenant: Some(tenant.clone()), ..self.clone() }
    }

    /// The same for the tenant of the authenticated caller. Operator acts do not charge the tenant.
    pub(crate) fn for_caller(&self, extensions: &Extensions) -> Self {
        let tenant = match extensions.get() {
            Some(RequestClass::OperatorAct) => None,
            Some(RequestClass::Ordinary | RequestClass::Keyed) | None => extensions.get::<TenantCaller>(),
        };
        Self { tenant: tenant.map(|caller| caller.tenant.clone()), ..self.clone() }
    }

    /// Charges `kib` KiB.
    pub(crate) fn charge_kib(&self, kib: usize) -> Result<PaidBytes, RequestRefusal> {
        let process = self.process.clone().try_acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX));
        let process =
            process.map_err(|_| RequestRefusal::new(RefusalKind::Busy, "too many bytes are in flight"))?;
        let share = u64::try_from(kib).unwrap_or(u64::MAX);
        let tenant = self.tenant.as_ref();
        let tenant =
            tenant.map(|tenant| self.quotas.hold_share(tenant, HeldQuota::BodyBytes, share)).transpose()?;
        Ok(PaidBytes { process, tenant })
    }
}
