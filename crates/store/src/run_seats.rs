//! Columns of seats beside their run, for lookups: holder and next deadline.

use std::time::Duration;

use millstream_core::claim::{self, Due, FORMAT, Progress, Run, Status, Token};
use millstream_core::id::DeviceId;
use millstream_core::raw::RawJson;
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;

use crate::{Result, StoreError};

/// A seat as columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatRow {
    pub seat: u16,
    pub status: Status,
    pub device: Option<DeviceId>,
    pub token: Option<Token>,
    pub priority: i32,
    pub assigned_at: Option<Timestamp>,
    pub due_at: Option<Timestamp>,
    /// Of a claim: the last heartbeat of its holder.
    pub heard_at: Option<Timestamp>,
    /// How long a holder may be silent.
    pub silence: Duration,
    /// Of a claim that has not begun: the deadline for its beginning.
    pub begin_by: Option<Timestamp>,
    pub pause: PauseState,
    pub progress: Option<RawJson>,
}

/// All seats of a run.
pub fn rows(run: &Run) -> Vec<SeatRow> {
    let pause = if run.is_paused() { PauseState::Paused } else { PauseState::Running };
    run.numbered()
        .map(|(number, seat)| SeatRow {
            seat: number,
            status: seat.status(),
            device: seat.held().map(|held| held.device.clone()),
            token: seat.held().map(|held| held.token),
            priority: run.priority,
            assigned_at: seat.held().map(|held| held.assigned_at),
            due_at: claim::due(run, number).map(|(at, _)| at),
            heard_at: seat.heard_at(),
            silence: run.settings.heartbeat_timeout,
            begin_by: claim::due_of(run, number, Due::ClaimExpiry),
            pause,
            progress: seat.progress.as_ref().map(RawJson::of),
        })
        .collect()
}

/// Heartbeat of a holder, as stored beside the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub seat: u16,
    pub token: Token,
    pub at: Timestamp,
    pub progress: Option<RawJson>,
}

/// Merges heartbeats into a run before a write by a process that may not have seen them: those of the same
/// claim that are later.
pub fn hear(run: &mut Run, heard: &[Heard]) -> Result<()> {
    bring(run, heard, |known, at| known < at)
}

fn bring(run: &mut Run, heard: &[Heard], counts: fn(Timestamp, Timestamp) -> bool) -> Result<()> {
    for one in heard {
        let Some(seat) = run.seats.get_mut(usize::from(one.seat)) else { continue };
        let is_theirs = seat.held().is_some_and(|held| held.token == one.token);
        if is_theirs && seat.heard_at().is_some_and(|known| counts(known, one.at)) {
            seat.hear(one.at);
            seat.progress = one.progress.as_ref().map(progress).transpose()?;
        }
    }
    Ok(())
}

fn progress(text: &RawJson) -> Result<Progress> {
    text.decode().map_err(|error| StoreError::Corrupt(format!("progress cannot be decoded: {error}")))
}

/// A run from its stored text and the heartbeats since.
pub fn decode(body: &str, heard: &[Heard]) -> Result<Run> {
    let corrupt = |why: String| StoreError::Corrupt(format!("run cannot be decoded: {why}"));
    let mut run: Run = RawJson::trusted(body).decode().map_err(|error| corrupt(error.to_string()))?;
    if run.format > FORMAT {
        let why = format!("format {} is newer than this build, which reads {FORMAT}", run.format);
        return Err(corrupt(why));
    }
    // Heartbeats stored beside the run were written with it, or after it.
    bring(&mut run, heard, |known, at| known <= at)?;
    Ok(run)
}
