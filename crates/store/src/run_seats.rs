//! Columns of seats beside their run, for lookups: holder and next deadline.

use std::time::Duration;

use millstream_devices::claim::{self, FORMAT, RunRecord, SeatDue, SeatProgress, SeatStatus, SeatToken};
use millstream_model::id::DeviceId;
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;

use crate::{StoreError, StoreResult};

/// A seat as columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatRow {
    pub seat: u16,
    pub status: SeatStatus,
    pub device: Option<DeviceId>,
    pub token: Option<SeatToken>,
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
pub fn seat_rows(run: &RunRecord) -> Vec<SeatRow> {
    let pause = if run.is_paused() { PauseState::Paused } else { PauseState::Running };
    run.numbered_seats()
        .map(|(number, seat)| SeatRow {
            seat: number,
            status: seat.status(),
            device: seat.current_holding().map(|held| held.device.clone()),
            token: seat.current_holding().map(|held| held.token),
            priority: run.priority,
            assigned_at: seat.current_holding().map(|held| held.assigned_at),
            due_at: claim::next_due(run, number).map(|(at, _)| at),
            heard_at: seat.heard_at(),
            silence: run.settings.heartbeat_timeout,
            begin_by: claim::due_time_of(run, number, SeatDue::ClaimExpiry),
            pause,
            progress: seat.progress.as_ref().map(RawJson::from_value),
        })
        .collect()
}

/// Heartbeat of a holder, as stored beside the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHeartbeat {
    pub seat: u16,
    pub token: SeatToken,
    pub at: Timestamp,
    pub progress: Option<RawJson>,
}

/// Merges heartbeats into a run before a write by a process that may not have seen them: those of the same
/// claim that are later.
pub fn merge_heartbeats(run: &mut RunRecord, heard: &[StoredHeartbeat]) -> StoreResult<()> {
    merge_heartbeats_if(run, heard, |known, at| known < at)
}

fn merge_heartbeats_if(
    run: &mut RunRecord,
    heard: &[StoredHeartbeat],
    counts: fn(Timestamp, Timestamp) -> bool,
) -> StoreResult<()> {
    for one in heard {
        let Some(seat) = run.seats.get_mut(usize::from(one.seat)) else { continue };
        let is_theirs = seat.current_holding().is_some_and(|held| held.token == one.token);
        if is_theirs && seat.heard_at().is_some_and(|known| counts(known, one.at)) {
            seat.record_heartbeat(one.at);
            seat.progress = one.progress.as_ref().map(decode_progress).transpose()?;
        }
    }
    Ok(())
}

fn decode_progress(text: &RawJson) -> StoreResult<SeatProgress> {
    text.decode().map_err(|error| StoreError::Corrupt(format!("progress cannot be decoded: {error}")))
}

/// A run from its stored text and the heartbeats since.
pub fn decode_run(body: &str, heard: &[StoredHeartbeat]) -> StoreResult<RunRecord> {
    let corrupt = |why: String| StoreError::Corrupt(format!("run cannot be decoded: {why}"));
    let mut run: RunRecord =
        RawJson::from_trusted_text(body).decode().map_err(|error| corrupt(error.to_string()))?;
    if run.format > FORMAT {
        let why = format!("format {} is newer than this build, which reads {FORMAT}", run.format);
        return Err(corrupt(why));
    }
    // Heartbeats stored beside the run were written with it, or after it.
    merge_heartbeats_if(&mut run, heard, |known, at| known <= at)?;
    Ok(run)
}
