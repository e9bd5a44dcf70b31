//! Places of requests, waits and streams: of the process, and of the tenant's share.

use millstream_model::id::TenantId;
use tokio::sync::OwnedSemaphorePermit;

use super::AdmissionControl;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::quotas::{HeldQuota, QuotaPermit, RateQuota, RequestClass};
use crate::refusal::{RefusalKind, RequestRefusal};

/// A permit of the process and of the tenant; released on drop.
#[derive(Debug)]
pub(crate) struct HeldPlace {
    _process: OwnedSemaphorePermit,
    _tenant: QuotaPermit,
}

impl AdmissionControl {
    /// A permit to wait for an outcome, a task or an assignment.
    pub(crate) fn wait_place(&self, tenant: &TenantId) -> Result<HeldPlace, RequestRefusal> {
        let process = self.gate.admit_wait();
        let process =
            process.ok_or_else(|| RequestRefusal::new(RefusalKind::Busy, "too many callers wait already"))?;
        Ok(HeldPlace { _process: process, _tenant: self.quotas.hold_share(tenant, HeldQuota::Waits, 1)? })
    }

    /// A permit to keep a tail or a watch open.
    pub(crate) fn stream_place(&self, tenant: &TenantId) -> Result<HeldPlace, RequestRefusal> {
        let process = self.gate.admit_tail()?;
        Ok(HeldPlace { _process: process, _tenant: self.quotas.hold_share(tenant, HeldQuota::Streams, 1)? })
    }

    /// A request slot for a caller within its rate limit and its share. Anonymous calls have neither, and
    /// operators belong to no tenant.
    pub(crate) fn request_slot(
        &self,
        caller: Option<&TenantCaller>,
        class: RequestClass,
    ) -> Result<RequestSlot, RequestRefusal> {
        let Some(TenantCaller { tenant, .. }) = caller else { return self.gate.admit_request(None, None) };
        let quotas = &self.quotas;
        let within = || {
            quotas.take_tokens(tenant, RateQuota::Requests, 1)?;
            quotas.hold_share(tenant, HeldQuota::Requests, 1)
        };
        match class {
            RequestClass::Ordinary => self.gate.admit_request(Some(within()?), None),
            RequestClass::OperatorAct => {
                self.gate.admit_request(Some(quotas.hold_reserve(tenant, HeldQuota::Requests, 1)?), None)
            }
            RequestClass::Keyed => match within() {
                Ok(share) => self.gate.admit_request(Some(share), None),
                Err(refusal) => {
                    quotas.take_tokens(tenant, RateQuota::Repeats, 1).map_err(|_| refusal)?;
                    let share = quotas.hold_reserve(tenant, HeldQuota::Requests, 1)?;
                    self.gate.admit_request(Some(share), Some(refusal))
                }
            },
        }
    }
}
