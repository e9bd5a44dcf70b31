//! Edits of a running graph.
//!
//! The edits are checked against the current graph, then sent as `millstream.edit`, which the worker
//! decides in its turn: the graph may change in between, and the answer is that of the decision.

use std::time::Duration;

use millstream_expr::ExprBudget;
use millstream_model::id::{EventId, ExecutionKey, Name, Seq};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_store::event_log::{EventSubmission, IdempotencyKey};
use millstream_store::views::EventView;
use millstream_workflow::graph::limits::{MAX_EDITS, MAX_NODES};
use millstream_workflow::graph::{self, GraphEdit, NodeEdit};
use millstream_workflow::graph_machine;
use millstream_workflow::machine::ENDED;
use serde::Serialize;

use super::GraphDeps;
use super::current::{CurrentGraph, load_current_graph};
use super::event_decision::{self, EventDecision};
use super::{known_results, run_off_runtime};
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::request_hash::hash_parts;
use crate::submit::event_draft::{self, EventDraft};
use crate::trace::TraceContext;

/// Default wait for the decision.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// Edits to apply.
#[derive(Debug)]
pub(crate) struct EditsToApply {
    pub(crate) expected_revision: u32,
    pub(crate) edits: Vec<NodeEdit>,
    pub(crate) idempotency_key: Option<String>,
}

/// The result of the edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphEditOutcome {
    Applied {
        /// The revision that they produced.
        revision: u32,
    },
    /// Durable, and not decided while the caller waited.
    Undecided { event_id: EventId },
}

/// The caller, and how long it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GraphCaller<'a> {
    pub(crate) caller: &'a TenantCaller,
    pub(crate) trace: &'a TraceContext,
    pub(crate) slot: &'a RequestSlot,
    pub(crate) patience: Option<Duration>,
}

pub(crate) async fn edit_graph(
    deps: &GraphDeps,
    asker: GraphCaller<'_>,
    execution: ExecutionKey,
    wish: EditsToApply,
) -> Result<GraphEditOutcome, RequestRefusal> {
    let idempotency = edit_idempotency(&execution, &wish);
    let checked = match asker.slot.admit_new() {
        Ok(()) => check_edits(deps, &execution, wish).await,
        Err(refusal) => Err(refusal),
    };
    let payload = checked.as_ref().map_or_else(|_| RawJson::null(), RawJson::from_value);
    let draft = EventDraft { execution, name: Name::edit(), payload, idempotency_key: None };
    let event = event_draft::new_event(&deps.submit, asker.caller, asker.trace, draft);
    let event = EventSubmission { idempotency: idempotency.clone(), ..event };
    let decided = match checked {
        Ok(_) => event_decision::submit_event(deps, asker.slot, event.clone(), asker.patience).await?,
        // Refused now; but an edit accepted earlier with this idempotency key gets its original answer.
        Err(refusal) => {
            let refused = vec![(&asker.caller.tenant, idempotency, refusal)];
            let recalled = event_draft::recall_accepted(&deps.submit, refused).await?.pop();
            let (event_id, _) = recalled
                .ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))??;
            event_decision::await_earlier_event(deps, asker.slot, &event, event_id, asker.patience).await?
        }
    };
    match decided {
        EventDecision::NotYet(event_id) => Ok(GraphEditOutcome::Undecided { event_id }),
        EventDecision::Event(view) => edit_verdict(deps, *view).await,
    }
}

/// Hash of the edits alone: the known results that accompany them may differ between repeats.
fn edit_idempotency(execution: &ExecutionKey, wish: &EditsToApply) -> Option<IdempotencyKey> {
    #[derive(Serialize)]
    struct EditFingerprint<'a> {
        expected_revision: u32,
        edits: &'a [NodeEdit],
    }
    let key = wish.idempotency_key.clone()?;
    let said = RawJson::from_value(&EditFingerprint {
        expected_revision: wish.expected_revision,
        edits: &wish.edits,
    });
    let request_hash =
        hash_parts(&[b"edit", execution.execution.as_str().as_bytes(), said.as_str().as_bytes()]);
    Some(IdempotencyKey { key, request_hash })
}

/// The payload, if the edits fit the current graph.
async fn check_edits(
    deps: &GraphDeps,
    key: &ExecutionKey,
    wish: EditsToApply,
) -> Result<GraphEdit, RequestRefusal> {
    let EditsToApply { expected_revision, edits, .. } = wish;
    if edits.len() > MAX_EDITS {
        let fault = format!("there are {} edits, at most {MAX_EDITS} are allowed", edits.len());
        return Err(too_large(fault));
    }
    deps.admission.admit_edits(&key.tenant, &edits)?;
    let CurrentGraph { graph, phase } = load_current_graph(deps, key).await?;
    if phase.is_ended() {
        return Err(graph_ended());
    }
    if graph.revision != expected_revision {
        return Err(revision_conflict(expected_revision, graph.revision));
    }
    let nodes = edits.iter().fold(graph.nodes.len(), |nodes, edit| match edit {
        NodeEdit::Insert(_) => nodes + 1,
        NodeEdit::Update(_) => nodes,
        NodeEdit::Delete(_) => nodes.saturating_sub(1),
    });
    if nodes > MAX_NODES {
        return Err(too_large(format!("there would be {nodes} nodes, at most {MAX_NODES} are allowed")));
    }
    let bytes = nodes * 256 + graph::edit_check_bytes(&edits);
    let (edits, missing) = run_off_runtime(&deps.machines.compilations, bytes, move || {
        let patch = graph::build_patch(&graph, &edits, &ExprBudget::default());
        let missing = patch.map(|patch| known_results::missing_results(&graph, patch));
        missing.map(|missing| (edits, missing))
    })
    .await?
    .map_err(|problems| RequestRefusal { kind: RefusalKind::Unfit, ..RequestRefusal::invalid(problems.0) })?;
    let known = known_results::load_known_results(deps, key, &missing).await?;
    Ok(GraphEdit { expected_revision, edits, known })
}

async fn edit_verdict(deps: &GraphDeps, event: EventView) -> Result<GraphEditOutcome, RequestRefusal> {
    let reason = event.error.unwrap_or_default();
    match (event.status, event.seq) {
        (EventStatus::Processing | EventStatus::Completed | EventStatus::Failed, Some(seq)) => {
            let revision = revision_at(deps, &event.execution, seq).await?;
            Ok(GraphEditOutcome::Applied { revision })
        }
        (EventStatus::Rejected, _) if graph_machine::is_revision_conflict(&reason) => {
            Err(RequestRefusal::new(RefusalKind::RevisionConflict, reason))
        }
        (EventStatus::Rejected, _) if reason == ENDED => Err(graph_ended()),
        (EventStatus::Rejected, _) => {
            let fault = Fault::new("edits", reason.clone());
            Err(RequestRefusal { faults: vec![fault], ..RequestRefusal::new(RefusalKind::Unfit, reason) })
        }
        (EventStatus::Pending | EventStatus::Deferred, _) => {
            Ok(GraphEditOutcome::Undecided { event_id: event.event_id })
        }
        (EventStatus::Processing | EventStatus::Completed | EventStatus::Failed | EventStatus::Dead, _) => {
            Err(RequestRefusal::new(
                RefusalKind::Internal,
                format!("the edit could not be decided: {reason}"),
            ))
        }
    }
}

/// The revision after a transition.
async fn revision_at(deps: &GraphDeps, execution: &ExecutionKey, seq: Seq) -> Result<u32, RequestRefusal> {
    let page = deps.stores.execution_views.read_history(execution, Seq(seq.0 - 1), 1).await?;
    let entry = page.entries.into_iter().next();
    let change = entry.and_then(|entry| entry.transition.decision.graph);
    let patched = change.as_ref().and_then(|change| change.patch.as_ref());
    let expanded = change.as_ref().and_then(|change| change.expanded.last());
    let revision = expanded.map(|expanded| expanded.revision).or(patched.map(|patch| patch.revision));
    revision.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the edit left no revision behind"))
}

fn graph_ended() -> RequestRefusal {
    RequestRefusal::new(RefusalKind::Conflict, "the graph has ended and cannot be edited")
}

fn revision_conflict(expected: u32, is: u32) -> RequestRefusal {
    RequestRefusal::new(
        RefusalKind::RevisionConflict,
        format!(
            "revision conflict: the graph is at revision {is}, the edits expect {expected}; re-read the graph and retry"
        ),
    )
}

fn too_large(message: String) -> RequestRefusal {
    RequestRefusal {
        faults: vec![Fault::new("edits", message.clone())],
        ..RequestRefusal::new(RefusalKind::TooLarge, message)
    }
}
