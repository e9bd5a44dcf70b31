//! Waits for the outcome of an event: subscribes to announcements, and polls the store in case one is lost.
//!
//! A waiter subscribes first and reads afterwards, so that no commit in between is missed; a waiter that
//! subscribed before the event was accepted skips the first read. All waiters that one commit wakes share
//! one query. A waiter holds no request slot, and a drain ends the wait at once: the caller gets the latest
//! known state.

use std::time::Duration;

use millstream_core::id::{EventId, ExecutionKey};
use millstream_store::Result;
use millstream_store::views::EventView;
use tokio::time::Instant;

use crate::door::Door;
use crate::gate::Slot;
use crate::news::Ear;
use crate::prefer::Until;

/// The state to wait for, and the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) longest: Duration,
    pub(crate) until: Until,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The event reached the awaited state.
    Met(Box<EventView>),
    /// Timeout (or too many waiters, or the drain); the event as it was last read.
    TimeUp(Option<Box<EventView>>),
}

/// Known state of the event when the wait begins.
#[derive(Debug)]
pub(crate) enum Since {
    /// The event was undecided when this subscription already existed.
    Undecided(Ear),
    Nothing,
}

pub(crate) async fn outcome(
    door: &Door,
    slot: &Slot,
    execution: &ExecutionKey,
    event: EventId,
    patience: Patience,
    since: Since,
) -> Result<Waited> {
    let Ok(_leave) = door.wait_place(&execution.tenant) else { return Ok(Waited::TimeUp(None)) };
    slot.give_back();
    let deadline = Instant::now() + patience.longest;
    let mut ear = match since {
        Since::Undecided(mut ear) => {
            listen(door, &mut ear, patience.longest).await;
            ear
        }
        Since::Nothing => door.news.about(execution.clone()),
    };
    loop {
        let seen = read(door, execution, event).await?;
        if let Some(view) = &seen
            && patience.until.is_met(view.status)
        {
            return Ok(Waited::Met(Box::new(view.clone())));
        }
        // An accepted event is missing only after its removal by retention: there is nothing to wait for.
        if seen.is_none() {
            return Ok(Waited::TimeUp(None));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || door.draining.is_cancelled() {
            return Ok(Waited::TimeUp(seen.map(Box::new)));
        }
        listen(door, &mut ear, left).await;
    }
}

async fn listen(door: &Door, ear: &mut Ear, longest: Duration) {
    tokio::select! {
        () = ear.listen(longest.min(door.options.reread)) => {}
        () = door.draining.cancelled() => {}
    }
}

async fn read(door: &Door, execution: &ExecutionKey, event: EventId) -> Result<Option<EventView>> {
    let found = door.outcomes.ask(vec![(execution.tenant.clone(), event)]).await?;
    Ok(found.into_iter().next().flatten())
}
