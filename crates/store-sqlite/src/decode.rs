//! Decoding rows. A column that does not decode is [`StoreError::Corrupt`], with the column's name.
//!
//! Columns are named; where rows are read by the thousand they are numbered, which saves the lookup.
//!
//! [`StoreError::Corrupt`]: millstream_store::StoreError::Corrupt

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use millstream_model::id::{
    AcceptNo, ActionKey, AssignmentId, DefinitionRef, EventId, ExecutionKey, IncidentId, ItemKey, Name,
    RunKey, Seq,
};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::action_store::FailureHandling;
use millstream_workflow::log::{EventOrigin, ExecutionState, FORMAT, Transition, TransitionDecision};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Row, RowIndex};
use uuid::Uuid;

use crate::errors::{SqliteFailure, SqliteResult, corrupt_row};

/// The columns of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SqliteFields<'r>(pub(crate) &'r Row<'r>);

/// The name or the number of a column.
pub(crate) trait SqliteColumn: RowIndex + Copy {
    fn name(self, row: &Row<'_>) -> String;
}

impl SqliteColumn for &str {
    fn name(self, _: &Row<'_>) -> String {
        self.to_owned()
    }
}

impl SqliteColumn for usize {
    fn name(self, row: &Row<'_>) -> String {
        row.as_ref().column_name(self).map_or_else(|_| self.to_string(), str::to_owned)
    }
}

impl<'r> SqliteFields<'r> {
    fn get<T: FromSql>(self, column: impl SqliteColumn) -> SqliteResult<T> {
        Ok(self.0.get(column)?)
    }

    fn corrupt_column(self, column: impl SqliteColumn, why: impl Display) -> SqliteFailure {
        corrupt_row(format!("column {}: {why}", column.name(self.0)))
    }

    pub(crate) fn opt_str(self, column: impl SqliteColumn) -> SqliteResult<Option<&'r str>> {
        match self.0.get_ref(column)? {
            ValueRef::Null => Ok(None),
            value @ (ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_)) => {
                value.as_str().map(Some).map_err(|error| self.corrupt_column(column, error))
            }
        }
    }

    pub(crate) fn text(self, column: impl SqliteColumn) -> SqliteResult<&'r str> {
        self.opt_str(column)?.ok_or_else(|| self.corrupt_column(column, "is null"))
    }

    pub(crate) fn opt_text(self, column: impl SqliteColumn) -> SqliteResult<Option<String>> {
        Ok(self.opt_str(column)?.map(str::to_owned))
    }

    pub(crate) fn int(self, column: impl SqliteColumn) -> SqliteResult<i64> {
        self.get(column)
    }

    pub(crate) fn opt_int(self, column: impl SqliteColumn) -> SqliteResult<Option<i64>> {
        self.get(column)
    }

    pub(crate) fn flag(self, column: impl SqliteColumn) -> SqliteResult<bool> {
        self.get(column)
    }

    pub(crate) fn real(self, column: impl SqliteColumn) -> SqliteResult<f64> {
        self.get(column)
    }

    pub(crate) fn small(self, column: impl SqliteColumn) -> SqliteResult<i32> {
        i32::try_from(self.int(column)?).map_err(|error| self.corrupt_column(column, error))
    }

    pub(crate) fn size(self, column: impl SqliteColumn) -> SqliteResult<usize> {
        usize::try_from(self.int(column)?).map_err(|error| self.corrupt_column(column, error))
    }

    pub(crate) fn number(self, column: impl SqliteColumn) -> SqliteResult<u32> {
        u32::try_from(self.int(column)?).map_err(|error| self.corrupt_column(column, error))
    }

    pub(crate) fn count(self, column: impl SqliteColumn) -> SqliteResult<u64> {
        u64::try_from(self.int(column)?).map_err(|error| self.corrupt_column(column, error))
    }

    pub(crate) fn id<T: FromStr<Err: Display>>(self, column: impl SqliteColumn) -> SqliteResult<T> {
        self.text(column)?.parse().map_err(|error| self.corrupt_column(column, error))
    }

    pub(crate) fn opt_id<T: FromStr<Err: Display>>(
        self,
        column: impl SqliteColumn,
    ) -> SqliteResult<Option<T>> {
        let text = self.opt_str(column)?;
        text.map(|text| text.parse().map_err(|error| self.corrupt_column(column, error))).transpose()
    }

    pub(crate) fn word<T>(self, column: impl SqliteColumn, parse: fn(&str) -> Option<T>) -> SqliteResult<T> {
        let word = self.text(column)?;
        parse(word).ok_or_else(|| self.corrupt_column(column, format!("unknown value {word:?}")))
    }

    pub(crate) fn opt_word<T>(
        self,
        column: impl SqliteColumn,
        parse: fn(&str) -> Option<T>,
    ) -> SqliteResult<Option<T>> {
        match self.opt_str(column)? {
            Some(_) => self.word(column, parse).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn time(self, column: impl SqliteColumn) -> SqliteResult<Timestamp> {
        self.int(column).map(Timestamp::from_millis)
    }

    pub(crate) fn opt_time(self, column: impl SqliteColumn) -> SqliteResult<Option<Timestamp>> {
        Ok(self.opt_int(column)?.map(Timestamp::from_millis))
    }

    pub(crate) fn seq(self, column: impl SqliteColumn) -> SqliteResult<Seq> {
        self.int(column).map(Seq)
    }

    pub(crate) fn opt_seq(self, column: impl SqliteColumn) -> SqliteResult<Option<Seq>> {
        Ok(self.opt_int(column)?.map(Seq))
    }

    pub(crate) fn accept_no(self, column: impl SqliteColumn) -> SqliteResult<AcceptNo> {
        self.int(column).map(AcceptNo)
    }

    pub(crate) fn event_id(self, column: impl SqliteColumn) -> SqliteResult<EventId> {
        self.get(column).map(Uuid::from_bytes).map(EventId)
    }

    pub(crate) fn incident_id(self, column: impl SqliteColumn) -> SqliteResult<IncidentId> {
        self.get(column).map(Uuid::from_bytes).map(IncidentId)
    }

    pub(crate) fn opt_event_id(self, column: impl SqliteColumn) -> SqliteResult<Option<EventId>> {
        Ok(self.get::<Option<[u8; 16]>>(column)?.map(Uuid::from_bytes).map(EventId))
    }

    pub(crate) fn hash(self, column: impl SqliteColumn) -> SqliteResult<[u8; 32]> {
        self.get(column)
    }

    pub(crate) fn raw(self, column: impl SqliteColumn) -> SqliteResult<RawJson> {
        self.text(column).map(RawJson::from_trusted_text)
    }

    pub(crate) fn opt_raw(self, column: impl SqliteColumn) -> SqliteResult<Option<RawJson>> {
        Ok(self.opt_str(column)?.map(RawJson::from_trusted_text))
    }

    pub(crate) fn json<T: serde::Deserialize<'r>>(self, column: impl SqliteColumn) -> SqliteResult<T> {
        serde_json::from_str(self.text(column)?).map_err(|error| self.corrupt_column(column, error))
    }

    pub(crate) fn blob(self, column: impl SqliteColumn) -> SqliteResult<Arc<[u8]>> {
        self.0.get_ref(column)?.as_blob().map(Arc::from).map_err(|error| self.corrupt_column(column, error))
    }

    /// Of an instance of a fan-out: its node, and its list element.
    pub(crate) fn instance(self) -> SqliteResult<Option<(Name, RawJson)>> {
        match self.opt_id("instance_of")? {
            Some(of) => Ok(Some((of, self.raw("item")?))),
            None => Ok(None),
        }
    }

    pub(crate) fn item_key(self) -> SqliteResult<ItemKey> {
        Ok(ItemKey { tenant: self.id("tenant")?, item: self.id("item")? })
    }

    pub(crate) fn opt_assignment_id(self, column: impl SqliteColumn) -> SqliteResult<Option<AssignmentId>> {
        Ok(self.get::<Option<[u8; 16]>>(column)?.map(Uuid::from_bytes).map(AssignmentId))
    }

    pub(crate) fn execution(self) -> SqliteResult<ExecutionKey> {
        Ok(ExecutionKey { tenant: self.id("tenant")?, execution: self.id("execution_id")? })
    }

    pub(crate) fn run_key(self) -> SqliteResult<RunKey> {
        Ok(RunKey { tenant: self.id("tenant")?, run: self.id("run_id")? })
    }

    pub(crate) fn action_key(self) -> SqliteResult<ActionKey> {
        Ok(ActionKey { execution: self.execution()?, seq: self.seq("seq")?, action: self.id("action")? })
    }

    /// The key of an action, if the row is about one.
    pub(crate) fn opt_action_key(self) -> SqliteResult<Option<ActionKey>> {
        match self.opt_int("seq")? {
            Some(_) => self.action_key().map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn definition(self) -> SqliteResult<DefinitionRef> {
        Ok(DefinitionRef { name: self.id("definition")?, version: self.small("version")? })
    }

    pub(crate) fn pause(self, column: impl SqliteColumn) -> SqliteResult<PauseState> {
        Ok(match self.opt_str(column)? {
            None => PauseState::Running,
            Some(_) => PauseState::Paused,
        })
    }

    pub(crate) fn handling(self) -> SqliteResult<FailureHandling> {
        Ok(if self.flag("handled")? { FailureHandling::Handled } else { FailureHandling::Unhandled })
    }

    pub(crate) fn needs(self) -> SqliteResult<Vec<Name>> {
        self.json("needs")
    }

    /// A snapshot, whose seq must equal that of its column.
    pub(crate) fn snapshot(self, column: impl SqliteColumn, seq: Seq) -> SqliteResult<ExecutionState> {
        let state: ExecutionState = self.json(column)?;
        self.known_format(column, state.format)?;
        if state.seq != seq {
            return Err(self.corrupt_column(column, format!("is of seq {}", state.seq)));
        }
        Ok(state)
    }

    pub(crate) fn decision(self) -> SqliteResult<TransitionDecision> {
        let decision: TransitionDecision = self.json("decision")?;
        self.known_format("decision", decision.format)?;
        Ok(decision)
    }

    pub(crate) fn transition(self) -> SqliteResult<Transition> {
        Ok(Transition {
            seq: self.seq("seq")?,
            event_id: self.event_id("event_id")?,
            name: self.id("name")?,
            at: self.time("at")?,
            decision: self.decision()?,
        })
    }

    pub(crate) fn origin(self, column: impl SqliteColumn) -> SqliteResult<EventOrigin> {
        Ok(match self.opt_seq(column)? {
            None => EventOrigin::Posted,
            Some(armed_seq) => EventOrigin::Timer { armed_seq },
        })
    }

    fn known_format(self, column: impl SqliteColumn, format: u8) -> SqliteResult<()> {
        if format > FORMAT {
            let why = format!("format {format} is newer than this build, which reads {FORMAT}");
            return Err(self.corrupt_column(column, why));
        }
        Ok(())
    }
}
