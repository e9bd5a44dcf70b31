//! Submits an event of the engine on behalf of a caller, and waits for its decision.

use std::time::Duration;

use millstream_model::id::EventId;
use millstream_model::status::EventStatus;
use millstream_store::event_log::{AppendRequest, EventSubmission};
use millstream_store::views::EventView;

use super::GraphDeps;
use crate::gate::RequestSlot;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::submit::event_draft;
use crate::wait::WaitUntil;
use crate::wait::{self, OutcomeWait, WaitResult, WaitStart};

/// The decision of an event, as far as it is known.
#[derive(Debug)]
pub(super) enum EventDecision {
    Event(Box<EventView>),
    /// Durable, and not decided while the caller waited.
    NotYet(EventId),
}

/// Makes the event durable and waits for its decision; does not wait where `longest` is `None`.
pub(super) async fn submit_event(
    deps: &GraphDeps,
    slot: &RequestSlot,
    event: EventSubmission,
    longest: Option<Duration>,
) -> Result<EventDecision, RequestRefusal> {
    let ear = longest.map(|_| deps.news.subscribe_to(event.execution.clone()));
    let verdict = deps.accept.submit_batch(vec![AppendRequest::Event(event.clone())]).await?.pop();
    let verdict =
        verdict.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))?;
    let (event_id, status) = event_draft::accepted_event(&deps.submit, &event, verdict)?;
    let since = match (ear, status) {
        (Some(ear), EventStatus::Pending) => WaitStart::Undecided(ear),
        (Some(_) | None, _) => WaitStart::Nothing,
    };
    let Some(longest) = longest else { return Ok(EventDecision::NotYet(event_id)) };
    await_event(deps, slot, &event, event_id, longest, since).await
}

/// Waits for the decision of an event that was accepted earlier.
pub(super) async fn await_earlier_event(
    deps: &GraphDeps,
    slot: &RequestSlot,
    event: &EventSubmission,
    event_id: EventId,
    longest: Option<Duration>,
) -> Result<EventDecision, RequestRefusal> {
    let Some(longest) = longest else { return Ok(EventDecision::NotYet(event_id)) };
    await_event(deps, slot, event, event_id, longest, WaitStart::Nothing).await
}

async fn await_event(
    deps: &GraphDeps,
    slot: &RequestSlot,
    event: &EventSubmission,
    event_id: EventId,
    longest: Duration,
    since: WaitStart,
) -> Result<EventDecision, RequestRefusal> {
    let patience = OutcomeWait { longest, until: WaitUntil::Applied };
    match wait::wait_for_outcome(&deps.waits, slot, &event.execution, event_id, patience, since).await {
        Ok(WaitResult::Met(view)) => Ok(EventDecision::Event(view)),
        Ok(WaitResult::TimeUp(_)) => Ok(EventDecision::NotYet(event_id)),
        // The event is durable, whatever the state of the store now.
        Err(error) => {
            tracing::warn!(%error, "waiting for the decision of an event failed");
            Ok(EventDecision::NotYet(event_id))
        }
    }
}
