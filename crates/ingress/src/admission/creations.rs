//! Quota checks before something is written: events, executions, graphs and their edits, keys, and rows that
//! exist once.

use std::future::Future;

use millstream_model::id::{ExecutionKey, TenantId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::quota::{CountedQuota, QuotaRefusal};
use millstream_store::key_store::KeyView;
use millstream_workflow::graph::NodeEdit;
use millstream_workflow::quota_caps;

use super::AdmissionControl;
use crate::quotas::RateQuota;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The quota use of a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartCharge<'a> {
    pub(crate) key: &'a ExecutionKey,
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl AdmissionControl {
    /// Whether the tenant's clients may post this many events now.
    pub(crate) async fn admit_events(
        &self,
        tenant: &TenantId,
        events: usize,
        bytes: usize,
    ) -> Result<(), RequestRefusal> {
        self.quotas.take_tokens(tenant, RateQuota::Events, u64::try_from(events).unwrap_or(u64::MAX))?;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.quotas.admit_rows(tenant, CountedQuota::StoredBytes, bytes).await
    }

    /// Whether the tenant may have one more open execution; an existing one may be started again.
    pub(crate) async fn admit_start(
        &self,
        tenant: &TenantId,
        start: StartCharge<'_>,
    ) -> Result<(), RequestRefusal> {
        self.admit_starts(tenant, &[start]).await?.into_iter().collect()
    }

    /// The same for many starts, in order, with one query.
    pub(crate) async fn admit_starts(
        &self,
        tenant: &TenantId,
        starts: &[StartCharge<'_>],
    ) -> Result<Vec<Result<(), RequestRefusal>>, RequestRefusal> {
        let open = CountedQuota::OpenExecutions;
        let count = |starts: usize| u64::try_from(starts).unwrap_or(u64::MAX);
        let is_free = if self.quotas.admits_without_counting(tenant, open, count(starts.len())) {
            None
        } else {
            let keys: Vec<ExecutionKey> = starts.iter().map(|start| start.key.clone()).collect();
            let found = self.execution_views.find_executions(&keys).await?;
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
                    Err(refusal) if refusal.kind == RefusalKind::StoreUnavailable => return Err(refusal),
                    admitted => admitted,
                }
            });
        }
        Ok(admitted)
    }

    /// Whether the tenant may have one more, or has this one already.
    pub(crate) async fn admit_known(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
        known: impl Future<Output = Result<bool, RequestRefusal>>,
    ) -> Result<(), RequestRefusal> {
        if self.quotas.admits_without_counting(tenant, counted, 1) || known.await? {
            return Ok(());
        }
        self.quotas.admit_rows(tenant, counted, 1).await
    }

    /// Whether the caller's key may issue one more key of this tenant. An operator's key always may: a
    /// tenant that lost its keys needs a new one.
    pub(crate) async fn admit_key(
        &self,
        issuer: &KeyView,
        tenant: Option<&TenantId>,
    ) -> Result<(), RequestRefusal> {
        match (&issuer.tenant, tenant) {
            (Some(_), Some(tenant)) => self.quotas.admit_rows(tenant, CountedQuota::Keys, 1).await,
            (None, Some(_)) | (Some(_) | None, None) => Ok(()),
        }
    }

    /// Refuses a graph beyond the caps of its tenant, unless it exists already.
    pub(crate) async fn admit_graph(
        &self,
        key: &ExecutionKey,
        beyond: Vec<Fault>,
    ) -> Result<(), RequestRefusal> {
        if beyond.is_empty() {
            return Ok(());
        }
        let found = self.execution_views.find_executions(std::slice::from_ref(key)).await?;
        match found.into_iter().flatten().next() {
            Some(_) => Ok(()),
            None => Err(RequestRefusal::invalid(beyond)),
        }
    }

    /// Refuses edits with nodes beyond the caps of the tenant.
    pub(crate) fn admit_edits(&self, tenant: &TenantId, edits: &[NodeEdit]) -> Result<(), RequestRefusal> {
        let beyond = quota_caps::edit_problems(edits, &self.quotas.quota_of(tenant));
        if beyond.is_empty() { Ok(()) } else { Err(RequestRefusal::invalid(beyond)) }
    }
}
