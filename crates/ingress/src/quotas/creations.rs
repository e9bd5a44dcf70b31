//! Quota checks before runs, keys and graphs are created, and before graphs are edited.

use millstream_model::id::{ExecutionKey, RunKey, TenantId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::quota::CountedQuota;
use millstream_store::key_store::KeyView;
use millstream_workflow::graph::NodeEdit;
use millstream_workflow::quota_caps;

use crate::http::problem::ApiProblem;
use crate::state::IngressState;

impl IngressState {
    /// Whether the tenant may have one more open run; an existing one may be requested again.
    pub(crate) async fn admit_run(&self, key: &RunKey, bytes: usize) -> Result<(), ApiProblem> {
        let RunKey { tenant, .. } = key;
        let admitted = async {
            self.admit_events(tenant, 1, bytes).await?;
            self.quotas.admit_rows(tenant, CountedQuota::OpenRuns, 1).await
        };
        let Err(refusal) = admitted.await else { return Ok(()) };
        let known = self.fleet.load_runs(vec![key.clone()]).await?;
        if known.into_iter().flatten().next().is_some() { Ok(()) } else { Err(refusal) }
    }

    /// Whether the caller's key may issue one more key of this tenant. An operator's key always may: a
    /// tenant that lost its keys needs a new one.
    pub(crate) async fn admit_key(
        &self,
        issuer: &KeyView,
        tenant: Option<&TenantId>,
    ) -> Result<(), ApiProblem> {
        match (&issuer.tenant, tenant) {
            (Some(_), Some(tenant)) => self.quotas.admit_rows(tenant, CountedQuota::Keys, 1).await,
            (None, Some(_)) | (Some(_) | None, None) => Ok(()),
        }
    }

    /// Refuses a graph beyond the caps of its tenant, unless it exists already.
    pub(crate) async fn admit_graph(&self, key: &ExecutionKey, beyond: Vec<Fault>) -> Result<(), ApiProblem> {
        if beyond.is_empty() {
            return Ok(());
        }
        let found = self.stores.execution_views.find_executions(std::slice::from_ref(key)).await?;
        match found.into_iter().flatten().next() {
            Some(_) => Ok(()),
            None => Err(ApiProblem::invalid(beyond)),
        }
    }

    /// Refuses edits with nodes beyond the caps of the tenant.
    pub(crate) fn admit_edits(&self, tenant: &TenantId, edits: &[NodeEdit]) -> Result<(), ApiProblem> {
        let beyond = quota_caps::edit_problems(edits, &self.quotas.quota_of(tenant));
        if beyond.is_empty() { Ok(()) } else { Err(ApiProblem::invalid(beyond)) }
    }
}
