//! What the admission of requests needs.

use std::sync::Arc;

use millstream_store::views::ExecutionViews;

use crate::gate::RequestGate;
use crate::quotas::TenantQuotas;

pub(crate) struct AdmissionControl {
    pub(crate) gate: RequestGate,
    pub(crate) quotas: Arc<TenantQuotas>,
    pub(crate) execution_views: Arc<dyn ExecutionViews>,
}
