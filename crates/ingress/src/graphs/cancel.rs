//! Cancels a graph: the event `millstream.cancel`, as for every execution.

use millstream_model::id::{ExecutionKey, Name};
use millstream_model::raw::RawJson;
use serde::Serialize;

use super::GraphDeps;
use super::edit::GraphCaller;
use super::event_decision::{self, EventDecision};
use super::find::{FoundGraph, find_graph};
use crate::refusal::RequestRefusal;
use crate::submit::event_draft::{self, EventDraft};

#[derive(Serialize)]
struct CancelPayload {
    reason: Option<String>,
}

/// State of the cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphCancellation {
    /// The graph has ended, by this or an earlier cancellation, or by itself.
    Ended,
    /// Durable, and not decided yet.
    NotYet,
}

pub(crate) async fn cancel_graph(
    deps: &GraphDeps,
    asker: GraphCaller<'_>,
    execution: ExecutionKey,
    reason: Option<String>,
) -> Result<(GraphCancellation, FoundGraph), RequestRefusal> {
    let found = find_graph(deps, &execution).await?;
    if found.execution.state.phase.is_ended() {
        return Ok((GraphCancellation::Ended, found));
    }
    let payload = RawJson::from_value(&CancelPayload { reason });
    let draft = EventDraft {
        execution: execution.clone(),
        name: Name::cancel_event(),
        payload,
        idempotency_key: None,
    };
    let event = event_draft::new_event(&deps.submit, asker.caller, asker.trace, draft);
    let decided = event_decision::submit_event(deps, asker.slot, event, asker.patience).await?;
    let found = find_graph(deps, &execution).await?;
    Ok(match decided {
        EventDecision::Event(_) => (GraphCancellation::Ended, found),
        EventDecision::NotYet(_) => (GraphCancellation::NotYet, found),
    })
}
