//! Incidents: failures that wait for a person.
//!
//! An incident is opened in the transaction of the failure that causes it
//! ([`AfterFailure::Incident`](crate::action_store::AfterFailure), a commit, a burial, a pause) and resolved once,
//! together with what the decision does. While an execution has one it is paused; when its last failed or
//! dead event is reopened or settled it goes on.

use millstream_core::action::ErrorClass;
use millstream_core::id::{
    ActionKey, DefinitionRef, EventId, ExecutionId, ExecutionKey, IncidentId, Name, TenantId,
};
use millstream_core::raw::RawJson;
use millstream_core::status::{Phase, Resolution};
use millstream_core::time::Timestamp;

use crate::Result;
use crate::event_log::NewEvent;
use crate::intervention::Decision;

#[async_trait::async_trait]
pub trait Incidents: Send + Sync {
    /// Newest first, beginning after the position `after` (at smaller ones).
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IncidentView>>;

    /// Open incidents by fingerprint, the largest groups first.
    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> Result<Vec<IncidentGroup>>;

    /// In the order asked; `None` where there is none.
    async fn incidents(&self, keys: &[(TenantId, IncidentId)]) -> Result<Vec<Option<IncidentView>>>;

    /// Decide about incidents, in one transaction, one verdict per item, in order.
    ///
    /// `Retry` makes the action ready (due at once, attempts 0, the epoch kept), and what was skipped
    /// because of it and of nothing else waiting again; of a `dead` event it makes the event undecided
    /// again, with attempts 0. `RetryWith` does the same with another input and the next revision.
    /// `Skip` makes the action succeeded with the result and appends `emit`; of a dead event it makes the
    /// event rejected. The event of the action is reopened when none of its actions is failed and
    /// unhandled any more, and the execution is resumed when no event of it is dead or failed any more.
    /// `End` appends the event that ends the execution and changes nothing else; the incident is resolved
    /// all the same. Each is recorded with who and why.
    async fn resolve(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, Resolving)],
        by: &Decision,
        now: Timestamp,
    ) -> Result<Vec<Resolved>>;
}

/// Whether a failure opens an incident: after the end of its execution nobody has to decide about one, unless it
/// is of what the engine owes others at that end (a parent is told, children are closed).
pub fn opens(phase: Phase, action: Option<&Name>) -> bool {
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
    /// The place in lists.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedView {
    pub resolution: Resolution,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentGroup {
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
pub enum Resolving {
    Retry,
    RetryWith { input: RawJson },
    Skip { result: RawJson, emit: Option<Box<NewEvent>> },
    End { resolution: Resolution, event: Box<NewEvent> },
}

impl Resolving {
    pub const fn resolution(&self) -> Resolution {
        match self {
            Self::Retry => Resolution::Retry,
            Self::RetryWith { .. } => Resolution::RetryWithInput,
            Self::Skip { .. } => Resolution::Skip,
            Self::End { resolution, .. } => *resolution,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// Ring its mailbox, and for actions.
    Done {
        execution: ExecutionKey,
    },
    /// Somebody was faster.
    Already {
        resolution: Resolution,
    },
    NotFound,
}
