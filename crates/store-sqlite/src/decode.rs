//! Decoding rows. A column that does not decode is [`StoreError::Corrupt`], with the column's name.
//!
//! Columns are named; where rows are read by the thousand they are numbered, which saves the lookup.
//!
//! [`StoreError::Corrupt`]: millstream_store::StoreError::Corrupt

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use millstream_core::id::{
    AcceptNo, ActionKey, AssignmentId, DefinitionRef, EventId, ExecutionKey, IncidentId, ItemKey, Name,
    RunKey, Seq,
};
use millstream_core::log::{Decision, FORMAT, Origin, State, Transition};
use millstream_core::raw::RawJson;
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;
use millstream_store::action_store::Handling;
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Row, RowIndex};
use uuid::Uuid;

use crate::errors::{Attempt, Failure, corrupt};

/// The columns of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'r>(pub(crate) &'r Row<'r>);

/// The name or the number of a column.
pub(crate) trait Column: RowIndex + Copy {
    fn name(self, row: &Row<'_>) -> String;
}

impl Column for &str {
    fn name(self, _: &Row<'_>) -> String {
        self.to_owned()
    }
}

impl Column for usize {
    fn name(self, row: &Row<'_>) -> String {
        row.as_ref().column_name(self).map_or_else(|_| self.to_string(), str::to_owned)
    }
}

impl<'r> Fields<'r> {
    fn get<T: FromSql>(self, column: impl Column) -> Attempt<T> {
        Ok(self.0.get(column)?)
    }

    fn bad(self, column: impl Column, why: impl Display) -> Failure {
        corrupt(format!("column {}: {why}", column.name(self.0)))
    }

    pub(crate) fn opt_str(self, column: impl Column) -> Attempt<Option<&'r str>> {
        match self.0.get_ref(column)? {
            ValueRef::Null => Ok(None),
            value @ (ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_)) => {
                value.as_str().map(Some).map_err(|error| self.bad(column, error))
            }
        }
    }

    pub(crate) fn text(self, column: impl Column) -> Attempt<&'r str> {
        self.opt_str(column)?.ok_or_else(|| self.bad(column, "is null"))
    }

    pub(crate) fn opt_text(self, column: impl Column) -> Attempt<Option<String>> {
        Ok(self.opt_str(column)?.map(str::to_owned))
    }

    pub(crate) fn int(self, column: impl Column) -> Attempt<i64> {
        self.get(column)
    }

    pub(crate) fn opt_int(self, column: impl Column) -> Attempt<Option<i64>> {
        self.get(column)
    }

    pub(crate) fn flag(self, column: impl Column) -> Attempt<bool> {
        self.get(column)
    }

    pub(crate) fn real(self, column: impl Column) -> Attempt<f64> {
        self.get(column)
    }

    pub(crate) fn small(self, column: impl Column) -> Attempt<i32> {
        i32::try_from(self.int(column)?).map_err(|error| self.bad(column, error))
    }

    pub(crate) fn size(self, column: impl Column) -> Attempt<usize> {
        usize::try_from(self.int(column)?).map_err(|error| self.bad(column, error))
    }

    pub(crate) fn number(self, column: impl Column) -> Attempt<u32> {
        u32::try_from(self.int(column)?).map_err(|error| self.bad(column, error))
    }

    pub(crate) fn count(self, column: impl Column) -> Attempt<u64> {
        u64::try_from(self.int(column)?).map_err(|error| self.bad(column, error))
    }

    pub(crate) fn id<T: FromStr<Err: Display>>(self, column: impl Column) -> Attempt<T> {
        self.text(column)?.parse().map_err(|error| self.bad(column, error))
    }

    pub(crate) fn opt_id<T: FromStr<Err: Display>>(self, column: impl Column) -> Attempt<Option<T>> {
        let text = self.opt_str(column)?;
        text.map(|text| text.parse().map_err(|error| self.bad(column, error))).transpose()
    }

    pub(crate) fn word<T>(self, column: impl Column, parse: fn(&str) -> Option<T>) -> Attempt<T> {
        let word = self.text(column)?;
        parse(word).ok_or_else(|| self.bad(column, format!("unknown value {word:?}")))
    }

    pub(crate) fn opt_word<T>(self, column: impl Column, parse: fn(&str) -> Option<T>) -> Attempt<Option<T>> {
        match self.opt_str(column)? {
            Some(_) => self.word(column, parse).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn time(self, column: impl Column) -> Attempt<Timestamp> {
        self.int(column).map(Timestamp::from_millis)
    }

    pub(crate) fn opt_time(self, column: impl Column) -> Attempt<Option<Timestamp>> {
        Ok(self.opt_int(column)?.map(Timestamp::from_millis))
    }

    pub(crate) fn seq(self, column: impl Column) -> Attempt<Seq> {
        self.int(column).map(Seq)
    }

    pub(crate) fn opt_seq(self, column: impl Column) -> Attempt<Option<Seq>> {
        Ok(self.opt_int(column)?.map(Seq))
    }

    pub(crate) fn accept_no(self, column: impl Column) -> Attempt<AcceptNo> {
        self.int(column).map(AcceptNo)
    }

    pub(crate) fn event_id(self, column: impl Column) -> Attempt<EventId> {
        self.get(column).map(Uuid::from_bytes).map(EventId)
    }

    pub(crate) fn incident_id(self, column: impl Column) -> Attempt<IncidentId> {
        self.get(column).map(Uuid::from_bytes).map(IncidentId)
    }

    pub(crate) fn opt_event_id(self, column: impl Column) -> Attempt<Option<EventId>> {
        Ok(self.get::<Option<[u8; 16]>>(column)?.map(Uuid::from_bytes).map(EventId))
    }

    pub(crate) fn hash(self, column: impl Column) -> Attempt<[u8; 32]> {
        self.get(column)
    }

    pub(crate) fn raw(self, column: impl Column) -> Attempt<RawJson> {
        self.text(column).map(RawJson::trusted)
    }

    pub(crate) fn opt_raw(self, column: impl Column) -> Attempt<Option<RawJson>> {
        Ok(self.opt_str(column)?.map(RawJson::trusted))
    }

    pub(crate) fn json<T: serde::Deserialize<'r>>(self, column: impl Column) -> Attempt<T> {
        serde_json::from_str(self.text(column)?).map_err(|error| self.bad(column, error))
    }

    pub(crate) fn blob(self, column: impl Column) -> Attempt<Arc<[u8]>> {
        self.0.get_ref(column)?.as_blob().map(Arc::from).map_err(|error| self.bad(column, error))
    }

    /// Of an instance of a fan-out: its node, and its list element.
    pub(crate) fn instance(self) -> Attempt<Option<(Name, RawJson)>> {
        match self.opt_id("instance_of")? {
            Some(of) => Ok(Some((of, self.raw("item")?))),
            None => Ok(None),
        }
    }

    pub(crate) fn item_key(self) -> Attempt<ItemKey> {
        Ok(ItemKey { tenant: self.id("tenant")?, item: self.id("item")? })
    }

    pub(crate) fn opt_assignment_id(self, column: impl Column) -> Attempt<Option<AssignmentId>> {
        Ok(self.get::<Option<[u8; 16]>>(column)?.map(Uuid::from_bytes).map(AssignmentId))
    }

    pub(crate) fn execution(self) -> Attempt<ExecutionKey> {
        Ok(ExecutionKey { tenant: self.id("tenant")?, execution: self.id("execution_id")? })
    }

    pub(crate) fn run_key(self) -> Attempt<RunKey> {
        Ok(RunKey { tenant: self.id("tenant")?, run: self.id("run_id")? })
    }

    pub(crate) fn action_key(self) -> Attempt<ActionKey> {
        Ok(ActionKey { execution: self.execution()?, seq: self.seq("seq")?, action: self.id("action")? })
    }

    /// The key of an action, if the row is about one.
    pub(crate) fn opt_action_key(self) -> Attempt<Option<ActionKey>> {
        match self.opt_int("seq")? {
            Some(_) => self.action_key().map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn definition(self) -> Attempt<DefinitionRef> {
        Ok(DefinitionRef { name: self.id("definition")?, version: self.small("version")? })
    }

    pub(crate) fn pause(self, column: impl Column) -> Attempt<PauseState> {
        Ok(match self.opt_str(column)? {
            None => PauseState::Running,
            Some(_) => PauseState::Paused,
        })
    }

    pub(crate) fn handling(self) -> Attempt<Handling> {
        Ok(if self.flag("handled")? { Handling::Handled } else { Handling::Unhandled })
    }

    pub(crate) fn needs(self) -> Attempt<Vec<Name>> {
        self.json("needs")
    }

    /// A snapshot, whose seq must equal that of its column.
    pub(crate) fn snapshot(self, column: impl Column, seq: Seq) -> Attempt<State> {
        let state: State = self.json(column)?;
        self.known_format(column, state.format)?;
        if state.seq != seq {
            return Err(self.bad(column, format!("is of seq {}", state.seq)));
        }
        Ok(state)
    }

    pub(crate) fn decision(self) -> Attempt<Decision> {
        let decision: Decision = self.json("decision")?;
        self.known_format("decision", decision.format)?;
        Ok(decision)
    }

    pub(crate) fn transition(self) -> Attempt<Transition> {
        Ok(Transition {
            seq: self.seq("seq")?,
            event_id: self.event_id("event_id")?,
            name: self.id("name")?,
            at: self.time("at")?,
            decision: self.decision()?,
        })
    }

    pub(crate) fn origin(self, column: impl Column) -> Attempt<Origin> {
        Ok(match self.opt_seq(column)? {
            None => Origin::Posted,
            Some(armed_seq) => Origin::Timer { armed_seq },
        })
    }

    fn known_format(self, column: impl Column, format: u8) -> Attempt<()> {
        if format > FORMAT {
            let why = format!("format {format} is newer than this build, which reads {FORMAT}");
            return Err(self.bad(column, why));
        }
        Ok(())
    }
}
