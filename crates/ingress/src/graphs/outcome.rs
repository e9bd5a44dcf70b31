//! Submits an event of the engine on behalf of a caller, and waits for its decision.

use std::time::Duration;

use millstream_core::id::EventId;
use millstream_core::status::EventStatus;
use millstream_store::event_log::{Append, NewEvent};
use millstream_store::views::EventView;

use crate::door::Door;
use crate::gate::Slot;
use crate::http::posting;
use crate::http::problem::{Kind, Problem};
use crate::prefer::Until;
use crate::wait::{self, Patience, Since, Waited};

/// The decision of an event, as far as it is known.
#[derive(Debug)]
pub(super) enum Decided {
    Event(Box<EventView>),
    /// Durable, and not decided while the caller waited.
    NotYet(EventId),
}

/// Makes the event durable and waits for its decision; does not wait where `longest` is `None`.
pub(super) async fn submit(
    door: &Door,
    slot: &Slot,
    event: NewEvent,
    longest: Option<Duration>,
) -> Result<Decided, Problem> {
    let ear = longest.map(|_| door.news.about(event.execution.clone()));
    let verdict = door.accept.submit(vec![Append::Event(event.clone())]).await?.pop();
    let verdict = verdict.ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))?;
    let (event_id, status) = posting::verdict(door, &event, verdict)?;
    let since = match (ear, status) {
        (Some(ear), EventStatus::Pending) => Since::Undecided(ear),
        (Some(_) | None, _) => Since::Nothing,
    };
    let Some(longest) = longest else { return Ok(Decided::NotYet(event_id)) };
    await_event(door, slot, &event, event_id, longest, since).await
}

/// Waits for the decision of an event that was accepted earlier.
pub(super) async fn again(
    door: &Door,
    slot: &Slot,
    event: &NewEvent,
    event_id: EventId,
    longest: Option<Duration>,
) -> Result<Decided, Problem> {
    let Some(longest) = longest else { return Ok(Decided::NotYet(event_id)) };
    await_event(door, slot, event, event_id, longest, Since::Nothing).await
}

async fn await_event(
    door: &Door,
    slot: &Slot,
    event: &NewEvent,
    event_id: EventId,
    longest: Duration,
    since: Since,
) -> Result<Decided, Problem> {
    let patience = Patience { longest, until: Until::Applied };
    match wait::outcome(door, slot, &event.execution, event_id, patience, since).await {
        Ok(Waited::Met(view)) => Ok(Decided::Event(view)),
        Ok(Waited::TimeUp(_)) => Ok(Decided::NotYet(event_id)),
        // The event is durable, whatever the state of the store now.
        Err(error) => {
            tracing::warn!(%error, "waiting for the decision of an event failed");
            Ok(Decided::NotYet(event_id))
        }
    }
}
