//! Quota checks before handlers write something or hold a resource for long.
//!
//! Existing things are never refused: a repeat, a known executor, device, run, queue or person, an
//! unchanged definition.

use std::future::Future;

use millstream_devices::claim::DeviceReport;
use millstream_model::id::{DeviceKey, ExecutionKey, TenantId};
use millstream_model::quota::{CountedQuota, QuotaRefusal};
use tokio::sync::OwnedSemaphorePermit;

use super::{HeldQuota, QuotaPermit, RateQuota, RequestClass};
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::http::problem::{ApiProblem, ProblemKind};
use crate::state::IngressState;

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

impl IngressState {
    /// A permit to wait for an outcome, a task or an assignment.
    pub(crate) fn wait_place(&self, tenant: &TenantId) -> Result<HeldPlace, ApiProblem> {
        let process = self.gate.admit_wait();
        let process =
            process.ok_or_else(|| ApiProblem::new(ProblemKind::Busy, "too many callers wait already"))?;
        Ok(HeldPlace { _process: process, _tenant: self.quotas.hold_share(tenant, HeldQuota::Waits, 1)? })
    }

    /// A permit to keep a tail or a watch open.
    pub(crate) fn stream_place(&self, tenant: &TenantId) -> Result<HeldPlace, ApiProblem> {
        let process = self.gate.admit_tail()?;
        Ok(HeldPlace { _process: process, _tenant: self.quotas.hold_share(tenant, HeldQuota::Streams, 1)? })
    }

    /// A request slot for a caller within its rate limit and its share. Anonymous calls have neither, and
    /// operators belong to no tenant.
    pub(crate) fn request_slot(
        &self,
        caller: Option<&TenantCaller>,
        class: RequestClass,
    ) -> Result<RequestSlot, ApiProblem> {
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

    /// Whether the tenant's clients may post this many events now.
    pub(crate) async fn admit_events(
        &self,
        tenant: &TenantId,
        events: usize,
        bytes: usize,
    ) -> Result<(), ApiProblem> {
        self.quotas.take_tokens(tenant, RateQuota::Events, u64::try_from(events).unwrap_or(u64::MAX))?;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.quotas.admit_rows(tenant, CountedQuota::StoredBytes, bytes).await
    }

    /// Whether the tenant may have one more open execution; an existing one may be started again.
    pub(crate) async fn admit_start(
        &self,
        tenant: &TenantId,
        start: StartCharge<'_>,
    ) -> Result<(), ApiProblem> {
        self.admit_starts(tenant, &[start]).await?.into_iter().collect()
    }

    /// The same for many starts, in order, with one query.
    pub(crate) async fn admit_starts(
        &self,
        tenant: &TenantId,
        starts: &[StartCharge<'_>],
    ) -> Result<Vec<Result<(), ApiProblem>>, ApiProblem> {
        let open = CountedQuota::OpenExecutions;
        let count = |starts: usize| u64::try_from(starts).unwrap_or(u64::MAX);
        let is_free = if self.quotas.admits_without_counting(tenant, open, count(starts.len())) {
            None
        } else {
            let keys: Vec<ExecutionKey> = starts.iter().map(|start| start.key.clone()).collect();
            let found = self.stores.execution_views.find_executions(&keys).await?;
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
                Err(QuotaRefusal::without_retry(
                    open.quota_name(),
                    self.quotas.quota_of(tenant).get(open.quota_name()),
                )
                .into())
            } else {
                match self.admit_events(tenant, start.events, start.bytes).await {
                    Err(problem) if problem.kind == ProblemKind::StoreUnavailable => return Err(problem),
                    admitted => admitted,
                }
            });
        }
        Ok(admitted)
    }

    /// Records a device's self-description. A new device counts against the tenant's quota.
    pub(crate) async fn hear_device(
        &self,
        tenant: &TenantId,
        device: DeviceReport,
    ) -> Result<(), ApiProblem> {
        let key = DeviceKey { tenant: tenant.clone(), device: device.id.clone() };
        let known = async { Ok(self.fleet.find_device(key).await?.is_some()) };
        self.admit_known(tenant, CountedQuota::Devices, known).await?;
        Ok(self.fleet.record_device(tenant.clone(), device).await?)
    }

    /// Whether the tenant may have one more, or has this one already.
    pub(crate) async fn admit_known(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
        known: impl Future<Output = Result<bool, ApiProblem>>,
    ) -> Result<(), ApiProblem> {
        if self.quotas.admits_without_counting(tenant, counted, 1) || known.await? {
            return Ok(());
        }
        self.quotas.admit_rows(tenant, counted, 1).await
    }
}
