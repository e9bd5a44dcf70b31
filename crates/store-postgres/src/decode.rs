//! Decoding rows. A row that cannot be decoded is corrupt, and the error names the column.

use std::borrow::Cow;

use millstream_model::action_queue::ActionQueue;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{
    AcceptNo, ActionKey, DefinitionRef, DeviceId, EventId, ExecutionId, ExecutionKey, ItemId, Name, PersonId,
    RunId, RunKey, Seq, TenantId, WorkerId,
};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase, IncidentResolution, PauseState};
use millstream_model::time::Timestamp;
use millstream_people::assignment::QueueState;
use millstream_workflow::graph::NodeStatus;
use millstream_workflow::log::{EventOrigin, ExecutionState, FORMAT, Transition, TransitionDecision};
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::errors::{PostgresFailure, PostgresResult};

pub(crate) fn undecodable(what: &str, value: &str, why: impl std::fmt::Display) -> PostgresFailure {
    PostgresFailure::Undecodable(format!("{what} {value:?}: {why}"))
}

/// A text column that is parsed into a name or an enum.
pub(crate) trait ParsedColumn: Sized {
    fn parsed(text: &str) -> std::result::Result<Self, String>;
}

macro_rules! parsed_id {
    ($($id:ty),+) => {$(
        impl ParsedColumn for $id {
            fn parsed(text: &str) -> std::result::Result<Self, String> {
                Self::parse(text).map_err(|error| error.to_string())
            }
        }
    )+};
}

macro_rules! parsed_word {
    ($($word:ty),+) => {$(
        impl ParsedColumn for $word {
            fn parsed(text: &str) -> std::result::Result<Self, String> {
                Self::parse(text).ok_or_else(|| "unknown value".to_owned())
            }
        }
    )+};
}

parsed_id!(TenantId, ExecutionId, Name, WorkerId, DeviceId, RunId, ItemId, PersonId);
parsed_word!(
    millstream_devices::claim::SeatStatus,
    millstream_model::notice::NoticeKind,
    NodeStatus,
    ActionStatus,
    EventStatus,
    ExecutionPhase,
    IncidentResolution,
    ActionQueue,
    QueueState,
    millstream_model::status::Role
);

impl ParsedColumn for ErrorClass {
    fn parsed(text: &str) -> std::result::Result<Self, String> {
        Name::parsed(text).map(Self::named)
    }
}

pub(crate) fn parsed<T: ParsedColumn>(row: &PgRow, column: &str) -> PostgresResult<T> {
    let text: &str = row.try_get(column)?;
    T::parsed(text).map_err(|why| undecodable(column, text, why))
}

pub(crate) fn parsed_option<T: ParsedColumn>(row: &PgRow, column: &str) -> PostgresResult<Option<T>> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| T::parsed(text).map_err(|why| undecodable(column, text, why))).transpose()
}

pub(crate) fn time(row: &PgRow, column: &str) -> PostgresResult<Timestamp> {
    Ok(Timestamp::from_millis(row.try_get(column)?))
}

pub(crate) fn time_option(row: &PgRow, column: &str) -> PostgresResult<Option<Timestamp>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_millis))
}

pub(crate) fn json(row: &PgRow, column: &str) -> PostgresResult<RawJson> {
    Ok(RawJson::from_trusted_text(row.try_get::<&str, _>(column)?))
}

pub(crate) fn json_option(row: &PgRow, column: &str) -> PostgresResult<Option<RawJson>> {
    Ok(row.try_get::<Option<&str>, _>(column)?.map(RawJson::from_trusted_text))
}

/// A column that holds a JSON array.
pub(crate) fn list<T: DeserializeOwned>(row: &PgRow, column: &str) -> PostgresResult<T> {
    let text: &str = row.try_get(column)?;
    serde_json::from_str(text).map_err(|error| undecodable(column, text, error))
}

pub(crate) fn event_id(row: &PgRow) -> PostgresResult<EventId> {
    Ok(EventId(row.try_get::<Uuid, _>("event_id")?))
}

pub(crate) fn accept_no(row: &PgRow) -> PostgresResult<AcceptNo> {
    Ok(AcceptNo(row.try_get("accept_no")?))
}

pub(crate) fn seq(row: &PgRow, column: &str) -> PostgresResult<Seq> {
    Ok(Seq(row.try_get(column)?))
}

/// A column with a non-negative number.
pub(crate) fn number(row: &PgRow, column: &str) -> PostgresResult<u32> {
    let number: i64 = row.try_get(column)?;
    u32::try_from(number).map_err(|error| undecodable(column, &number.to_string(), error))
}

pub(crate) fn number_option(row: &PgRow, column: &str) -> PostgresResult<Option<u32>> {
    match row.try_get::<Option<i64>, _>(column)? {
        Some(_) => number(row, column).map(Some),
        None => Ok(None),
    }
}

/// Of an instance of a fan-out: its node, and its list element.
pub(crate) fn instance(row: &PgRow) -> PostgresResult<Option<(Name, RawJson)>> {
    match parsed_option(row, "instance_of")? {
        Some(of) => Ok(Some((of, json(row, "item")?))),
        None => Ok(None),
    }
}

pub(crate) fn execution_key(row: &PgRow) -> PostgresResult<ExecutionKey> {
    Ok(ExecutionKey { tenant: parsed(row, "tenant")?, execution: parsed(row, "execution_id")? })
}

pub(crate) fn run_key(row: &PgRow) -> PostgresResult<RunKey> {
    Ok(RunKey { tenant: parsed(row, "tenant")?, run: parsed(row, "run_id")? })
}

pub(crate) fn action_key(row: &PgRow) -> PostgresResult<ActionKey> {
    Ok(ActionKey { execution: execution_key(row)?, seq: seq(row, "seq")?, action: parsed(row, "action")? })
}

pub(crate) fn definition_ref(row: &PgRow) -> PostgresResult<DefinitionRef> {
    Ok(DefinitionRef { name: parsed(row, "definition")?, version: row.try_get("version")? })
}

pub(crate) fn origin(row: &PgRow) -> PostgresResult<EventOrigin> {
    Ok(match row.try_get::<Option<i64>, _>("timer_seq")? {
        None => EventOrigin::Posted,
        Some(armed_seq) => EventOrigin::Timer { armed_seq: Seq(armed_seq) },
    })
}

pub(crate) fn pause_state(row: &PgRow) -> PostgresResult<PauseState> {
    Ok(match row.try_get::<Option<&str>, _>("paused_reason")? {
        Some(_) => PauseState::Paused,
        None => PauseState::Running,
    })
}

pub(crate) fn snapshot(text: &str) -> PostgresResult<ExecutionState> {
    let state: ExecutionState = serde_json::from_str(text)
        .map_err(|error| PostgresFailure::Undecodable(format!("snapshot cannot be decoded: {error}")))?;
    readable_format("snapshot", state.format)?;
    Ok(state)
}

pub(crate) fn transition(
    seq: Seq,
    event_id: EventId,
    name: Name,
    at: Timestamp,
    decision: &str,
) -> PostgresResult<Transition> {
    Ok(Transition { seq, event_id, name, at, decision: self::decision(seq, decision)? })
}

pub(crate) fn decision(seq: Seq, text: &str) -> PostgresResult<TransitionDecision> {
    let decision: TransitionDecision = serde_json::from_str(text).map_err(|error| {
        PostgresFailure::Undecodable(format!("transition {seq} cannot be decoded: {error}"))
    })?;
    readable_format("transition", decision.format)?;
    Ok(decision)
}

/// This build reads its own format and the one before.
fn readable_format(what: &str, format: u8) -> PostgresResult<()> {
    if format == FORMAT || format + 1 == FORMAT {
        return Ok(());
    }
    Err(PostgresFailure::Undecodable(format!("{what} has format {format}, this build reads up to {FORMAT}")))
}

/// Text as PostgreSQL can hold it: it has no NUL. For messages only, never for data.
pub(crate) fn strip_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
