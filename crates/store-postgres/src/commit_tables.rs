//! The tables that commits and starts pass to their statements: one function per table of the database.

use std::borrow::Cow;

use millstream_model::id::{AcceptNo, ExecutionKey, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::event_log::ExecutionStart;
use millstream_store::execution_store::{DecidedEvent, EventVerdict, ExecutionCommit, SnapshotWrite};
use millstream_workflow::log::{ArmedTimer, Transition};

use crate::decode;
use crate::statement_inputs::InputTable;

/// A row of `executions` that starts, with its snapshot as text.
#[derive(Debug)]
pub(crate) struct StartRow<'a> {
    start: &'a ExecutionStart,
    position: AcceptNo,
    snapshot: RawJson,
}

impl<'a> StartRow<'a> {
    pub(crate) fn of(start: &'a ExecutionStart, position: AcceptNo) -> Self {
        Self { start, position, snapshot: RawJson::from_value(&start.state) }
    }
}

pub(crate) fn start_table<'q, 'a>(rows: &'q [StartRow<'a>]) -> InputTable<'q, StartRow<'a>> {
    let parent = |row: &'q StartRow<'a>| row.start.state.parent.as_ref();
    InputTable::of(rows)
        .execution_key(|row| &row.start.key)
        .end_of_key()
        .text("definition", |row| row.start.definition.name.as_str())
        .integer("version", |row| row.start.definition.version)
        .bytes("input_hash", |row| &row.start.input_hash[..])
        .number("position", |row| row.position.0)
        .number("seq", |row| row.start.state.seq.0)
        .text("state", |row| row.start.state.state.as_str())
        .text("phase", |row| row.start.state.phase.as_str())
        .text("snapshot", |row| row.snapshot.as_str())
        .number("snapshot_seq", |row| row.start.state.seq.0)
        .number("created_at", |row| row.start.state.at.as_millis())
        .number("updated_at", |row| row.start.state.at.as_millis())
        .number("ended_at", |row| row.start.state.phase.is_ended().then_some(row.start.state.at.as_millis()))
        .text("parent_id", move |row| Some(parent(row)?.execution.as_str()))
        .text("parent_close", move |row| Some(parent(row)?.close.as_str()))
        .text("correlation", |row| row.start.state.correlation.as_deref())
}

/// A row of `executions` that a commit moves, with its snapshot as text.
#[derive(Debug)]
pub(crate) struct MovedRow<'a> {
    commit: &'a ExecutionCommit,
    snapshot: Option<RawJson>,
    /// The reason for a pause that begins.
    pause: Option<Cow<'a, str>>,
    updated_at: Timestamp,
}

impl<'a> MovedRow<'a> {
    pub(crate) fn of(commit: &'a ExecutionCommit, now: Timestamp) -> Self {
        let pause = pause_of(commit).map(decode::strip_nul);
        Self {
            snapshot: match commit.snapshot {
                SnapshotWrite::Write => Some(RawJson::from_value(&commit.state)),
                SnapshotWrite::Skip => None,
            },
            updated_at: if pause.is_some() { now } else { commit.state.at },
            commit,
            pause,
        }
    }
}

pub(crate) fn moved_table<'q, 'a>(rows: &'q [MovedRow<'a>]) -> InputTable<'q, MovedRow<'a>> {
    InputTable::of(rows)
        .execution_key(|row| &row.commit.execution)
        .end_of_key()
        .number("expected", |row| row.commit.expected.0)
        .number("seq", |row| row.commit.state.seq.0)
        .text("state", |row| row.commit.state.state.as_str())
        .text("phase", |row| row.commit.state.phase.as_str())
        .text("snapshot", |row| row.snapshot.as_ref().map(RawJson::as_str))
        .number("updated_at", |row| row.updated_at.as_millis())
}

/// The same with the columns that few commits change.
pub(crate) fn paused_table<'q, 'a>(rows: &'q [MovedRow<'a>]) -> InputTable<'q, MovedRow<'a>> {
    moved_table(rows)
        .text("pause", |row| row.pause.as_deref())
        .text("correlation", |row| correlation_of(row.commit))
}

/// The correlation, from the last transition that sets one.
pub(crate) fn correlation_of(commit: &ExecutionCommit) -> Option<&str> {
    commit.transitions.iter().rev().find_map(|transition| transition.decision.correlation.as_deref())
}

/// An event that failed in its own commit pauses an execution that has not ended.
fn pause_of(commit: &ExecutionCommit) -> Option<&str> {
    if commit.state.phase.is_ended() {
        return None;
    }
    commit.decided.iter().find_map(|decided| match &decided.verdict {
        EventVerdict::Applied { status: EventStatus::Failed, error, .. } => {
            Some(error.as_deref().unwrap_or("an action failed"))
        }
        EventVerdict::Applied { .. } | EventVerdict::Rejected { .. } | EventVerdict::Deferred => None,
    })
}

/// A row of `transitions`, with its decision as text.
#[derive(Debug)]
pub(crate) struct TransitionRow<'a> {
    key: &'a ExecutionKey,
    transition: &'a Transition,
    decision: RawJson,
}

impl<'a> TransitionRow<'a> {
    pub(crate) fn of(key: &'a ExecutionKey, transition: &'a Transition) -> Self {
        Self { key, transition, decision: RawJson::from_value(&transition.decision) }
    }
}

pub(crate) fn transition_table<'q, 'a>(rows: &'q [TransitionRow<'a>]) -> InputTable<'q, TransitionRow<'a>> {
    InputTable::of(rows)
        .execution_key(|row| row.key)
        .number("seq", |row| row.transition.seq.0)
        .end_of_key()
        .id("event_id", |row| row.transition.event_id.0)
        .text("name", |row| row.transition.name.as_str())
        .number("at", |row| row.transition.at.as_millis())
        .text("decision", |row| row.decision.as_str())
}

/// The key of a row of `mailbox`.
pub(crate) type LetterRow<'a> = (&'a ExecutionKey, &'a DecidedEvent);

pub(crate) fn letter_table<'q, R>(
    rows: &'q [R],
    letter: impl Fn(&'q R) -> LetterRow<'q>,
) -> InputTable<'q, R> {
    InputTable::of(rows)
        .execution_key(|row| letter(row).0)
        .number("accept_no", |row| letter(row).1.accept_no.0)
        .id("event_id", |row| letter(row).1.event_id.0)
        .end_of_key()
}

/// A row of `timers`.
pub(crate) type ArmedRow<'a> = (&'a ExecutionKey, &'a ArmedTimer);

pub(crate) fn armed_table<'q, 'a>(rows: &'q [ArmedRow<'a>]) -> InputTable<'q, ArmedRow<'a>> {
    InputTable::of(rows)
        .execution_key(|row| row.0)
        .number("armed_seq", |row| row.1.armed_seq.0)
        .integer("ordinal", |row| row.1.ordinal)
        .end_of_key()
        .number("fire_at", |row| row.1.fire_at.as_millis())
        .text("send", |row| row.1.send.as_str())
}

/// Timers that are cancelled: all that this seq of the execution has armed.
pub(crate) type DisarmedRow<'a> = (&'a ExecutionKey, &'a Seq);

pub(crate) fn disarmed_table<'q, 'a>(rows: &'q [DisarmedRow<'a>]) -> InputTable<'q, DisarmedRow<'a>> {
    InputTable::of(rows).execution_key(|row| row.0).number("armed_seq", |row| row.1.0).end_of_key()
}
