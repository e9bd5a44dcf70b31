//! Relations between executions: children by their parent, executions by correlation.

use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::definition::ParentClose;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait Relations: Send + Sync {
    /// Children of an execution that have not ended and have this rule, by id, beginning after `after`.
    async fn list_children(
        &self,
        parent: &ExecutionKey,
        close: ParentClose,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>>;

    /// Executions that have the correlation and have not ended, at most `limit`, by id.
    async fn find_correlated(
        &self,
        tenant: &TenantId,
        correlation: &str,
        definition: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<(ExecutionKey, DefinitionRef)>>;

    /// Buffered signals, in the order asked; `None` where the signal is not buffered (any more).
    async fn find_signals(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<SignalView>>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalView {
    pub event_id: EventId,
    pub correlation: String,
    pub definition: Option<Name>,
    pub name: Name,
    pub payload: RawJson,
    pub actor: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}
