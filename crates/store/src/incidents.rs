//! Incidents: failures that wait for a person's decision.
//!
//! An incident is opened in the transaction of the failure that causes it
//! ([`AfterFailure::Incident`](crate::action_store::AfterFailure), a commit, a burial, a pause) and resolved
//! once, together with the effects of the decision. An execution with an open incident is paused; it resumes
//! when its last failed or dead event is reopened or settled.

use millstream_model::error_class::ErrorClass;
use millstream_model::id::{
    ActionKey, DefinitionRef, EventId, ExecutionId, ExecutionKey, IncidentId, Name, TenantId,
};
use millstream_model::raw::RawJson;
use millstream_model::status::{ExecutionPhase, IncidentResolution};
use millstream_model::time::Timestamp;

use crate::StoreResult;
use crate::event_log::EventSubmission;
use crate::intervention::DecisionRecord;

#[async_trait::async_trait]
pub trait Incidents: Send + Sync {
    /// Newest first, beginning after the position `after` (at smaller ones).
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>>;

    /// Open incidents by fingerprint, the largest groups first.
    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>>;

    /// In the order asked; `None` where there is none.
    async fn find_incidents(&self, keys: &[(TenantId, IncidentId)])
    -> StoreResult<Vec<Option<IncidentView>>>;

    /// Decide about incidents, in one transaction, one verdict per item, in order.
    ///
    /// `Retry` makes the action ready (due at once, attempts 0, the epoch kept), and the actions that were
    /// skipped only because of it waiting again; a `dead` event becomes undecided again, with attempts 0.
    /// `RetryWith` does the same with another input and the next revision. `Skip` makes the action succeeded
    /// with the result and appends `emit`; a dead event becomes rejected. The event of the action is reopened
    /// when it has no failed and unhandled action any more, and the execution is resumed when it has no dead
    /// or failed event any more. `End` appends the event that ends the execution and changes nothing else;
    /// the incident is resolved all the same. Each is recorded with the person and the reason.
    async fn resolve_incidents(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<Vec<ResolveVerdict>>;
}

/// Whether a failure opens an incident: after the end of its execution only a failure of the engine's own
/// end-of-execution actions does (returning the outcome to the parent, closing the children).
pub fn opens_incident(phase: ExecutionPhase, action: Option<&Name>) -> bool {
    !phase.is_ended() || action.is_some_and(Name::is_reserved)
}

#[derive(Debug, Clone, Default)]
pub struct IncidentFilter {
    pub status: Option<IncidentStatus>,
    pub fingerprint: Option<String>,
    pub execution: Option<ExecutionId>,
    pub definition: Option<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncidentStatus {
    Open,
    Resolved,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentView {
    pub id: IncidentId,
    /// Position in lists.
    pub position: i64,
    pub execution: ExecutionKey,
    pub definition: DefinitionRef,
    pub event_id: EventId,
    /// `None`: the event itself could not be decided.
    pub action: Option<ActionKey>,
    pub class: ErrorClass,
    pub fingerprint: String,
    pub reason: String,
    pub opened_at: Timestamp,
    pub resolved: Option<ResolvedView>,
}

impl IncidentView {
    pub fn status(&self) -> IncidentStatus {
        match self.resolved {
            Some(_) => IncidentStatus::Resolved,
            None => IncidentStatus::Open,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedView {
    pub resolution: IncidentResolution,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentGroupView {
    pub fingerprint: String,
    pub definition: Name,
    pub action: Option<Name>,
    pub class: ErrorClass,
    pub count: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// The newest of them.
    pub sample: IncidentView,
}

/// A decision about one incident.
#[derive(Debug, Clone)]
pub enum IncidentDecision {
    Retry,
    RetryWith { input: RawJson },
    Skip { result: RawJson, emit: Option<Box<EventSubmission>> },
    End { resolution: IncidentResolution, event: Box<EventSubmission> },
}

impl IncidentDecision {
    pub const fn resolution(&self) -> IncidentResolution {
        match self {
            Self::Retry => IncidentResolution::Retry,
            Self::RetryWith { .. } => IncidentResolution::RetryWithInput,
            Self::Skip { .. } => IncidentResolution::Skip,
            Self::End { resolution, .. } => *resolution,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveVerdict {
    /// Ring the doorbells of its mailbox and of its actions.
    Done {
        execution: ExecutionKey,
    },
    /// The incident was resolved before.
    Already {
        resolution: IncidentResolution,
    },
    NotFound,
}
