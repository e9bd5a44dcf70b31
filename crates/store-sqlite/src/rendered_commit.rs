//! A commit in written form: documents are rendered by the caller, so that the writer thread only writes.

use millstream_model::id::{DefinitionRef, ExecutionKey, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::{
    DecidedEvent, EventVerdict, ExecutionCommit, NewAction, OpenActions, SnapshotWrite,
};
use millstream_store::graph_store::GraphRows;
use millstream_workflow::log::{ArmedTimer, Transition};

/// An [`ExecutionCommit`] in written form: rendered by the caller, so that the writer thread only writes.
#[derive(Debug)]
pub(crate) struct RenderedCommit {
    pub(crate) execution: ExecutionKey,
    pub(crate) definition: DefinitionRef,
    pub(crate) expected: Seq,
    pub(crate) seq: Seq,
    pub(crate) state: Name,
    pub(crate) phase: ExecutionPhase,
    pub(crate) at: Timestamp,
    pub(crate) paused_reason: Option<String>,
    pub(crate) correlation: CorrelationChange,
    pub(crate) snapshot: Option<RawJson>,
    /// Each with its decision as text.
    pub(crate) transitions: Vec<(Transition, RawJson)>,
    pub(crate) decided: Vec<DecidedEvent>,
    pub(crate) timers: Vec<ArmedTimer>,
    pub(crate) cancelled_timers: Vec<Seq>,
    pub(crate) actions: Vec<NewAction>,
    pub(crate) emitted: Vec<EventSubmission>,
    pub(crate) open_actions: OpenActions,
    pub(crate) graph: Option<Box<GraphRows>>,
}

impl RenderedCommit {
    pub(crate) fn render(commit: &ExecutionCommit) -> Self {
        let render =
            |transition: &Transition| (transition.clone(), RawJson::from_value(&transition.decision));
        Self {
            execution: commit.execution.clone(),
            definition: commit.definition.clone(),
            expected: commit.expected,
            seq: commit.state.seq,
            state: commit.state.state.clone(),
            phase: commit.state.phase,
            at: commit.state.at,
            paused_reason: pause_reason(commit).map(str::to_owned),
            correlation: CorrelationChange::of(commit),
            snapshot: match commit.snapshot {
                SnapshotWrite::Write => Some(RawJson::from_value(&commit.state)),
                SnapshotWrite::Skip => None,
            },
            transitions: commit.transitions.iter().map(render).collect(),
            decided: commit.decided.clone(),
            timers: commit.timers.clone(),
            cancelled_timers: commit.cancelled_timers.clone(),
            actions: commit.actions.clone(),
            emitted: commit.emitted.clone(),
            open_actions: commit.open_actions,
            graph: commit.graph.clone(),
        }
    }
}

/// The effect of a commit on the correlation of its execution.
#[derive(Debug)]
pub(crate) enum CorrelationChange {
    Kept,
    Set(String),
    /// Signals do not find an ended execution.
    Gone,
}

impl CorrelationChange {
    fn of(commit: &ExecutionCommit) -> Self {
        if commit.state.phase.is_ended() {
            return if commit.state.correlation.is_some() { Self::Gone } else { Self::Kept };
        }
        let set = commit.transitions.iter().rev().find_map(|one| one.decision.correlation.as_ref());
        set.map_or(Self::Kept, |correlation| Self::Set(correlation.clone()))
    }
}

/// A commit with a failed event begins a pause; one that ends the execution lifts it.
fn pause_reason(commit: &ExecutionCommit) -> Option<&str> {
    if commit.state.phase.is_ended() {
        return None;
    }
    commit.decided.iter().find_map(|decided| match &decided.verdict {
        EventVerdict::Applied { status: EventStatus::Failed, error, .. } => {
            Some(error.as_deref().unwrap_or("an action failed"))
        }
        EventVerdict::Applied { .. } | EventVerdict::Rejected { .. } | EventVerdict::Deferred => None,
    })
}
