//! Waiting for the outcome of an event: listen, and read again in case nobody said anything.
//!
//! A waiter listens first and reads then, so that a commit in between is not missed; who listens since
//! before the event was accepted need not read before there are news. All who are woken by one commit
//! read in one query. A waiter holds no slot among the requests in flight, and a drain ends it at once:
//! the caller gets what is known by then.

use std::time::Duration;

use millstream_core::id::{EventId, ExecutionKey};
use millstream_store::Result;
use millstream_store::views::EventView;
use tokio::time::Instant;

use crate::door::Door;
use crate::gate::Slot;
use crate::news::Ear;
use crate::prefer::Until;

/// What a caller waits for, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) longest: Duration,
    pub(crate) until: Until,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// What the caller wanted is the case.
    Met(Box<EventView>),
    /// Time was up (or too many wait, or the process drains); the event as it was last seen.
    TimeUp(Option<Box<EventView>>),
}

/// What is known of the event when the wait begins.
#[derive(Debug)]
pub(crate) enum Since {
    /// It was undecided when this ear was open already.
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
        // It was accepted, so it was removed by retention, and there is nothing to wait for.
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
