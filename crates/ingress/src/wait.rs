//! Waits for the outcome of an event: subscribes to announcements, and polls the store in case one is lost.
//!
//! A waiter subscribes first and reads afterwards, so that no commit in between is missed; a waiter that
//! subscribed before the event was accepted skips the first read. All waiters that one commit wakes share
//! one query. A waiter holds no request slot, and a drain ends the wait at once: the caller gets the latest
//! known state.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::{EventId, ExecutionKey, TenantId};
use millstream_model::status::EventStatus;
use millstream_store::StoreResult;
use millstream_store::views::EventView;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionControl;
use crate::coalescer::Coalescer;
use crate::gate::RequestSlot;
use crate::waiters::{ExecutionSubscription, WaiterRegistry};

/// Dependencies of waits for outcomes.
pub(crate) struct WaitDeps {
    pub(crate) admission: Arc<AdmissionControl>,
    /// Event outcomes for waiting callers.
    pub(crate) outcomes: Coalescer<(TenantId, EventId), Option<EventView>>,
    pub(crate) news: WaiterRegistry,
    pub(crate) draining: CancellationToken,
    /// Interval at which a waiter reads the store although nothing was announced.
    pub(crate) reread: Duration,
}

/// The state that ends the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WaitUntil {
    /// The event has its final status.
    #[default]
    Final,
    /// The transition of the event is committed.
    Applied,
}

impl WaitUntil {
    pub(crate) fn is_met(self, status: EventStatus) -> bool {
        match self {
            Self::Final => status.is_final(),
            Self::Applied => status.is_final() || status.is_applied(),
        }
    }
}

/// The state to wait for, and the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutcomeWait {
    pub(crate) longest: Duration,
    pub(crate) until: WaitUntil,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum WaitResult {
    /// The event reached the awaited state.
    Met(Box<EventView>),
    /// Timeout (or too many waiters, or the drain); the event as it was last read.
    TimeUp(Option<Box<EventView>>),
}

/// Known state of the event when the wait begins.
#[derive(Debug)]
pub(crate) enum WaitStart {
    /// The event was undecided when this subscription already existed.
    Undecided(ExecutionSubscription),
    Nothing,
}

pub(crate) async fn wait_for_outcome(
    deps: &WaitDeps,
    slot: &RequestSlot,
    execution: &ExecutionKey,
    event: EventId,
    patience: OutcomeWait,
    since: WaitStart,
) -> StoreResult<WaitResult> {
    let Ok(_leave) = deps.admission.wait_place(&execution.tenant) else {
        return Ok(WaitResult::TimeUp(None));
    };
    slot.give_back();
    let deadline = Instant::now() + patience.longest;
    let mut ear = match since {
        WaitStart::Undecided(mut ear) => {
            wait_for_news(deps, &mut ear, patience.longest).await;
            ear
        }
        WaitStart::Nothing => deps.news.subscribe_to(execution.clone()),
    };
    loop {
        let seen = read_event(deps, execution, event).await?;
        if let Some(view) = &seen
            && patience.until.is_met(view.status)
        {
            return Ok(WaitResult::Met(Box::new(view.clone())));
        }
        // An accepted event is missing only after its removal by retention: there is nothing to wait for.
        if seen.is_none() {
            return Ok(WaitResult::TimeUp(None));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || deps.draining.is_cancelled() {
            return Ok(WaitResult::TimeUp(seen.map(Box::new)));
        }
        wait_for_news(deps, &mut ear, left).await;
    }
}

async fn wait_for_news(deps: &WaitDeps, ear: &mut ExecutionSubscription, longest: Duration) {
    tokio::select! {
        () = ear.wait_for_news(longest.min(deps.reread)) => {}
        () = deps.draining.cancelled() => {}
    }
}

async fn read_event(
    deps: &WaitDeps,
    execution: &ExecutionKey,
    event: EventId,
) -> StoreResult<Option<EventView>> {
    let found = deps.outcomes.ask_batched(vec![(execution.tenant.clone(), event)]).await?;
    Ok(found.into_iter().next().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applied_wait_ends_at_transition() {
        assert!(WaitUntil::Applied.is_met(EventStatus::Processing));
        assert!(!WaitUntil::Final.is_met(EventStatus::Processing));
        assert!(WaitUntil::Applied.is_met(EventStatus::Rejected));
        assert!(!WaitUntil::Applied.is_met(EventStatus::Deferred));
    }
}
