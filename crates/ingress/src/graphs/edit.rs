//! Edits of a running graph.
//!
//! The edits are checked against the current graph, then sent as `millstream.edit`, which the worker
//! decides in its turn: the graph may change in between, and the answer is that of the decision.

use std::time::Duration;

use millstream_core::expr::Budget;
use millstream_core::graph::limits::{MAX_EDITS, MAX_NODES};
use millstream_core::graph::{self, Edit, NodeEdit};
use millstream_core::id::{EventId, ExecutionKey, Name, Seq};
use millstream_core::machine::ENDED;
use millstream_core::problem::Problem as Fault;
use millstream_core::raw::RawJson;
use millstream_core::status::EventStatus;
use millstream_store::event_log::{Idempotency, NewEvent};
use millstream_store::views::EventView;
use serde::Serialize;

use super::current::{Current, current};
use super::outcome::{self, Decided};
use super::{heavy, known};
use crate::auth::Caller;
use crate::door::Door;
use crate::gate::Slot;
use crate::http::posting::{self, Draft};
use crate::http::problem::{Kind, Problem};
use crate::trace::Trace;

/// Default wait for the decision.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// Edits to apply.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) expected_revision: u32,
    pub(crate) edits: Vec<NodeEdit>,
    pub(crate) idempotency_key: Option<String>,
}

/// The result of the edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edited {
    Applied {
        /// The revision that they produced.
        revision: u32,
    },
    /// Durable, and not decided while the caller waited.
    Undecided { event_id: EventId },
}

/// The caller, and how long it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) trace: &'a Trace,
    pub(crate) slot: &'a Slot,
    pub(crate) patience: Option<Duration>,
}

pub(crate) async fn edit(
    door: &Door,
    asker: Asker<'_>,
    execution: ExecutionKey,
    wish: Wish,
) -> Result<Edited, Problem> {
    let idempotency = idempotency(&execution, &wish);
    let checked = match asker.slot.admit_new() {
        Ok(()) => check(door, &execution, wish).await,
        Err(problem) => Err(problem),
    };
    let payload = checked.as_ref().map_or_else(|_| RawJson::null(), RawJson::of);
    let draft = Draft { execution, name: Name::edit(), payload, idempotency_key: None };
    let event = posting::new_event(door, asker.caller, asker.trace, draft);
    let event = NewEvent { idempotency: idempotency.clone(), ..event };
    let decided = match checked {
        Ok(_) => outcome::submit(door, asker.slot, event.clone(), asker.patience).await?,
        // Refused now; but an edit accepted earlier with this idempotency key gets its original answer.
        Err(problem) => {
            let refused = vec![(&asker.caller.tenant, idempotency, problem)];
            let recalled = posting::recall(door, refused).await?.pop();
            let (event_id, _) =
                recalled.ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))??;
            outcome::again(door, asker.slot, &event, event_id, asker.patience).await?
        }
    };
    match decided {
        Decided::NotYet(event_id) => Ok(Edited::Undecided { event_id }),
        Decided::Event(view) => verdict(door, *view).await,
    }
}

/// Hash of the edits alone: the known results that accompany them may differ between repeats.
fn idempotency(execution: &ExecutionKey, wish: &Wish) -> Option<Idempotency> {
    #[derive(Serialize)]
    struct Said<'a> {
        expected_revision: u32,
        edits: &'a [NodeEdit],
    }
    let key = wish.idempotency_key.clone()?;
    let said = RawJson::of(&Said { expected_revision: wish.expected_revision, edits: &wish.edits });
    let request_hash =
        posting::hash(&[b"edit", execution.execution.as_str().as_bytes(), said.as_str().as_bytes()]);
    Some(Idempotency { key, request_hash })
}

/// The payload, if the edits fit the current graph.
async fn check(door: &Door, key: &ExecutionKey, wish: Wish) -> Result<Edit, Problem> {
    let Wish { expected_revision, edits, .. } = wish;
    if edits.len() > MAX_EDITS {
        let fault = format!("there are {} edits, at most {MAX_EDITS} are allowed", edits.len());
        return Err(too_large(fault));
    }
    door.admit_edits(&key.tenant, &edits)?;
    let Current { graph, phase } = current(door, key).await?;
    if phase.is_ended() {
        return Err(ended());
    }
    if graph.revision != expected_revision {
        return Err(another_revision(expected_revision, graph.revision));
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
    let (edits, missing) = heavy(&door.machines.compilations, bytes, move || {
        let patch = graph::patch(&graph, &edits, &Budget::default());
        let missing = patch.map(|patch| known::missing(&graph, patch));
        missing.map(|missing| (edits, missing))
    })
    .await?
    .map_err(|problems| Problem { kind: Kind::Unfit, ..Problem::invalid(problems.0) })?;
    let known = known::known(door, key, &missing).await?;
    Ok(Edit { expected_revision, edits, known })
}

async fn verdict(door: &Door, event: EventView) -> Result<Edited, Problem> {
    let reason = event.error.unwrap_or_default();
    match (event.status, event.seq) {
        (EventStatus::Processing | EventStatus::Completed | EventStatus::Failed, Some(seq)) => {
            let revision = revision_at(door, &event.execution, seq).await?;
            Ok(Edited::Applied { revision })
        }
        (EventStatus::Rejected, _) if graph::is_revision_conflict(&reason) => {
            Err(Problem::new(Kind::RevisionConflict, reason))
        }
        (EventStatus::Rejected, _) if reason == ENDED => Err(ended()),
        (EventStatus::Rejected, _) => {
            let fault = Fault::new("edits", reason.clone());
            Err(Problem { faults: vec![fault], ..Problem::new(Kind::Unfit, reason) })
        }
        (EventStatus::Pending | EventStatus::Deferred, _) => {
            Ok(Edited::Undecided { event_id: event.event_id })
        }
        (EventStatus::Processing | EventStatus::Completed | EventStatus::Failed | EventStatus::Dead, _) => {
            Err(Problem::new(Kind::Internal, format!("the edit could not be decided: {reason}")))
        }
    }
}

/// The revision after a transition.
async fn revision_at(door: &Door, execution: &ExecutionKey, seq: Seq) -> Result<u32, Problem> {
    let page = door.stores.execution_views.history(execution, Seq(seq.0 - 1), 1).await?;
    let entry = page.entries.into_iter().next();
    let change = entry.and_then(|entry| entry.transition.decision.graph);
    let patched = change.as_ref().and_then(|change| change.patch.as_ref());
    let expanded = change.as_ref().and_then(|change| change.expanded.last());
    let revision = expanded.map(|expanded| expanded.revision).or(patched.map(|patch| patch.revision));
    revision.ok_or_else(|| Problem::new(Kind::Internal, "the edit left no revision behind"))
}

fn ended() -> Problem {
    Problem::new(Kind::Conflict, "the graph has ended and cannot be edited")
}

fn another_revision(expected: u32, is: u32) -> Problem {
    Problem::new(
        Kind::RevisionConflict,
        format!(
            "revision conflict: the graph is at {is}, the edits expect {expected}; re-read the graph and retry"
        ),
    )
}

fn too_large(message: String) -> Problem {
    Problem { faults: vec![Fault::new("edits", message.clone())], ..Problem::new(Kind::TooLarge, message) }
}
