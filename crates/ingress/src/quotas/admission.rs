//! Quota checks before handlers write something or hold a resource for long.
//!
//! Existing things are never refused: a repeat, a known executor, device, run, queue or person, an
//! unchanged definition.

use std::future::Future;

use millstream_core::claim::Device;
use millstream_core::id::{DeviceKey, ExecutionKey, TenantId};
use millstream_core::quota::{CountedQuota, QuotaRefusal};
use tokio::sync::OwnedSemaphorePermit;

use super::{HeldQuota, QuotaPermit, RateQuota, RequestClass};
use crate::auth::Caller;
use crate::door::Door;
use crate::gate::Slot;
use crate::http::problem::{Kind, Problem};

/// A permit of the process and of the tenant; released on drop.
#[derive(Debug)]
pub(crate) struct HeldPlace {
    _process: OwnedSemaphorePermit,
    _tenant: QuotaPermit,
}

/// The quota use of a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartCharge<'a> {
    pub(crate) key: &'a ExecutionKey,
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl Door {
    /// A permit to wait for an outcome, a task or an assignment.
    pub(crate) fn wait_place(&self, tenant: &TenantId) -> Result<HeldPlace, Problem> {
        let process = self.gate.wait();
        let process = process.ok_or_else(|| Problem::new(Kind::Busy, "too many callers wait already"))?;
        Ok(HeldPlace { _process: process, _tenant: self.quotas.hold(tenant, HeldQuota::Waits, 1)? })
    }

    /// A permit to keep a tail or a watch open.
    pub(crate) fn stream_place(&self, tenant: &TenantId) -> Result<HeldPlace, Problem> {
        let process = self.gate.tail()?;
        Ok(HeldPlace { _process: process, _tenant: self.quotas.hold(tenant, HeldQuota::Streams, 1)? })
    }

    /// A request slot for a caller within its rate limit and its share. Anonymous calls have neither, and
    /// operators belong to no tenant.
    pub(crate) fn request_slot(&self, caller: Option<&Caller>, class: RequestClass) -> Result<Slot, Problem> {
        let Some(Caller { tenant, .. }) = caller else { return self.gate.request(None, None) };
        let quotas = &self.quotas;
        let within = || {
            quotas.pass(tenant, RateQuota::Requests, 1)?;
            quotas.hold(tenant, HeldQuota::Requests, 1)
        };
        match class {
            RequestClass::Ordinary => self.gate.request(Some(within()?), None),
            RequestClass::OperatorAct => {
                self.gate.request(Some(quotas.hold_reserve(tenant, HeldQuota::Requests, 1)?), None)
            }
            RequestClass::Keyed => match within() {
                Ok(share) => self.gate.request(Some(share), None),
                Err(refusal) => {
                    quotas.pass(tenant, RateQuota::Repeats, 1).map_err(|_| refusal)?;
                    let share = quotas.hold_reserve(tenant, HeldQuota::Requests, 1)?;
                    self.gate.request(Some(share), Some(refusal))
                }
            },
        }
    }

    /// Whether the tenant's clients may post this many events now.
    pub(crate) async fn admit_events(
        &self,
        tenant: &TenantId,
        events: usize,
        bytes: usize,
    ) -> Result<(), Problem> {
        self.quotas.pass(tenant, RateQuota::Events, u64::try_from(events).unwrap_or(u64::MAX))?;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.quotas.admit_rows(tenant, CountedQuota::StoredBytes, bytes).await
    }

    /// Whether the tenant may have one more open execution; an existing one may be started again.
    pub(crate) async fn admit_start(&self, tenant: &TenantId, start: StartCharge<'_>) -> Result<(), Problem> {
        self.admit_starts(tenant, &[start]).await?.into_iter().collect()
    }

    /// The same for many starts, in order, with one query.
    pub(crate) async fn admit_starts(
        &self,
        tenant: &TenantId,
        starts: &[StartCharge<'_>],
    ) -> Result<Vec<Result<(), Problem>>, Problem> {
        let open = CountedQuota::OpenExecutions;
        let count = |starts: usize| u64::try_from(starts).unwrap_or(u64::MAX);
        let is_free = if self.quotas.admits_without_counting(tenant, open, count(starts.len())) {
            None
        } else {
            let keys: Vec<ExecutionKey> = starts.iter().map(|start| start.key.clone()).collect();
            let found = self.stores.execution_views.executions(&keys).await?;
            let exists: Vec<bool> = found.iter().map(Option::is_some).collect();
            let new = exists.iter().filter(|exists| !**exists).count();
            let mut left = self.quotas.admit_some(tenant, open, count(new)).await?;
            let mut is_free = |exists: bool| {
                let is_free = exists || left > 0;
                left -= u64::from(is_free && !exists);
                is_free
            };
            Some(exists.into_iter().map(&mut is_free).collect::<Vec<bool>>())
        };
        let mut admitted = Vec::with_capacity(starts.len());
        for (at, start) in starts.iter().enumerate() {
            let is_free = is_free.as_ref().is_none_or(|is_free| is_free.get(at).copied().unwrap_or(false));
            admitted.push(if !is_free {
                Err(QuotaRefusal::lasting(open.name(), self.quotas.quota(tenant).get(open.name())).into())
            } else {
                match self.admit_events(tenant, start.events, start.bytes).await {
                    Err(problem) if problem.kind == Kind::StoreUnavailable => return Err(problem),
                    admitted => admitted,
                }
            });
        }
        Ok(admitted)
    }

    /// Records a device's self-description. A new device counts against the tenant's quota.
    pub(crate) async fn hear_device(&self, tenant: &TenantId, device: Device) -> Result<(), Problem> {
        let key = DeviceKey { tenant: tenant.clone(), device: device.id.clone() };
        let known = async { Ok(self.fleet.device(key).await?.is_some()) };
        self.admit_known(tenant, CountedQuota::Devices, known).await?;
        Ok(self.fleet.hear(tenant.clone(), device).await?)
    }

    /// Whether the tenant may have one more, or has this one already.
    pub(crate) async fn admit_known(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
        known: impl Future<Output = Result<bool, Problem>>,
    ) -> Result<(), Problem> {
        if self.quotas.admits_without_counting(tenant, counted, 1) || known.await? {
            return Ok(());
        }
        self.quotas.admit_rows(tenant, counted, 1).await
    }
}
