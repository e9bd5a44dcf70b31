//! Cancels a graph: the event `millstream.cancel`, as for every execution.

use millstream_core::id::{ExecutionKey, Name};
use millstream_core::raw::RawJson;
use serde::Serialize;

use super::edit::Asker;
use super::find::{Found, find};
use super::outcome::{self, Decided};
use crate::door::Door;
use crate::http::posting::{self, Draft};
use crate::http::problem::Problem;

#[derive(Serialize)]
struct Payload {
    reason: Option<String>,
}

/// State of the cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The graph has ended, by this or an earlier cancellation, or by itself.
    Ended,
    /// Durable, and not decided yet.
    NotYet,
}

pub(crate) async fn cancel(
    door: &Door,
    asker: Asker<'_>,
    execution: ExecutionKey,
    reason: Option<String>,
) -> Result<(Cancelled, Found), Problem> {
    let found = find(door, &execution).await?;
    if found.execution.state.phase.is_ended() {
        return Ok((Cancelled::Ended, found));
    }
    let payload = RawJson::of(&Payload { reason });
    let draft = Draft { execution: execution.clone(), name: Name::cancel(), payload, idempotency_key: None };
    let event = posting::new_event(door, asker.caller, asker.trace, draft);
    let decided = outcome::submit(door, asker.slot, event, asker.patience).await?;
    let found = find(door, &execution).await?;
    Ok(match decided {
        Decided::Event(_) => (Cancelled::Ended, found),
        Decided::NotYet(_) => (Cancelled::NotYet, found),
    })
}
