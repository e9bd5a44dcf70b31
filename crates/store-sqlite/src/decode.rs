//! Rows into vocabulary. What does not decode is [`StoreError::Corrupt`], with the column's name.

use std::fmt::Display;
use std::str::FromStr;

use millstream_core::id::{AcceptNo, ActionKey, DefinitionRef, EventId, ExecutionKey, Name, Seq};
use millstream_core::log::{Decision, FORMAT, Kept, Origin, State, Transition, Waiting};
use millstream_core::raw::RawJson;
use millstream_core::status::{EventStatus, PauseState};
use millstream_core::time::Timestamp;
use millstream_store::action_store::Handling;
use millstream_store::{Result, StoreError};
use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Decode, Row, Type};

use crate::errors::corrupt;

/// The columns of one row.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'r>(pub(crate) &'r SqliteRow);

impl<'r> Fields<'r> {
    fn get<T: Decode<'r, Sqlite> + Type<Sqlite>>(self, column: &str) -> Result<T> {
        self.0.try_get(column).map_err(corrupt)
    }

    pub(crate) fn text(self, column: &str) -> Result<&'r str> {
        self.get(column)
    }

    pub(crate) fn opt_text(self, column: &str) -> Result<Option<String>> {
        self.get(column)
    }

    pub(crate) fn int(self, column: &str) -> Result<i64> {
        self.get(column)
    }

    pub(crate) fn small(self, column: &str) -> Result<i32> {
        i32::try_from(self.int(column)?).map_err(|error| bad(column, error))
    }

    /// The place in the JSON parameter, as `key` of `json_each`.
    pub(crate) fn index(self, column: &str) -> Result<usize> {
        usize::try_from(self.int(column)?).map_err(|error| bad(column, error))
    }

    pub(crate) fn count(self, column: &str) -> Result<u64> {
        u64::try_from(self.int(column)?).map_err(|error| bad(column, error))
    }

    pub(crate) fn id<T: FromStr<Err: Display>>(self, column: &str) -> Result<T> {
        self.text(column)?.parse().map_err(|error| bad(column, error))
    }

    pub(crate) fn opt_id<T: FromStr<Err: Display>>(self, column: &str) -> Result<Option<T>> {
        let text: Option<&str> = self.get(column)?;
        text.map(|text| text.parse().map_err(|error| bad(column, error))).transpose()
    }

    pub(crate) fn word<T>(self, column: &str, parse: fn(&str) -> Option<T>) -> Result<T> {
        let word = self.text(column)?;
        parse(word).ok_or_else(|| bad(column, format!("unknown word {word:?}")))
    }

    pub(crate) fn time(self, column: &str) -> Result<Timestamp> {
        self.int(column).map(Timestamp::from_millis)
    }

    pub(crate) fn opt_time(self, column: &str) -> Result<Option<Timestamp>> {
        Ok(self.get::<Option<i64>>(column)?.map(Timestamp::from_millis))
    }

    pub(crate) fn seq(self, column: &str) -> Result<Seq> {
        self.int(column).map(Seq)
    }

    pub(crate) fn opt_seq(self, column: &str) -> Result<Option<Seq>> {
        Ok(self.get::<Option<i64>>(column)?.map(Seq))
    }

    pub(crate) fn accept_no(self, column: &str) -> Result<AcceptNo> {
        self.int(column).map(AcceptNo)
    }

    pub(crate) fn event_id(self, column: &str) -> Result<EventId> {
        self.id(column).map(EventId)
    }

    pub(crate) fn opt_event_id(self, column: &str) -> Result<Option<EventId>> {
        Ok(self.opt_id(column)?.map(EventId))
    }

    pub(crate) fn raw(self, column: &str) -> Result<RawJson> {
        self.text(column).map(RawJson::trusted)
    }

    pub(crate) fn opt_raw(self, column: &str) -> Result<Option<RawJson>> {
        Ok(self.get::<Option<&str>>(column)?.map(RawJson::trusted))
    }

    pub(crate) fn json<T: serde::Deserialize<'r>>(self, column: &str) -> Result<T> {
        serde_json::from_str(self.text(column)?).map_err(|error| bad(column, error))
    }

    pub(crate) fn execution(self) -> Result<ExecutionKey> {
        Ok(ExecutionKey { tenant: self.id("tenant")?, execution: self.id("execution_id")? })
    }

    pub(crate) fn action_key(self) -> Result<ActionKey> {
        Ok(ActionKey { execution: self.execution()?, seq: self.seq("seq")?, action: self.id("action")? })
    }

    pub(crate) fn definition(self) -> Result<DefinitionRef> {
        Ok(DefinitionRef { name: self.id("definition")?, version: self.small("version")? })
    }

    pub(crate) fn pause(self) -> Result<PauseState> {
        Ok(match self.get::<Option<&str>>("paused_reason")? {
            None => PauseState::Running,
            Some(_) => PauseState::Paused,
        })
    }

    pub(crate) fn handling(self) -> Result<Handling> {
        Ok(match self.int("handled")? {
            0 => Handling::Unhandled,
            _ => Handling::Handled,
        })
    }

    pub(crate) fn needs(self) -> Result<Vec<Name>> {
        self.json("needs")
    }

    /// A snapshot, which must be of the seq that its column says.
    pub(crate) fn snapshot(self) -> Result<State> {
        let state: State = self.json("snapshot")?;
        known_format("snapshot", state.format)?;
        if state.seq != self.seq("snapshot_seq")? {
            return Err(bad("snapshot", format!("is of seq {}", state.seq)));
        }
        Ok(state)
    }

    pub(crate) fn transition(self) -> Result<Transition> {
        let decision: Decision = self.json("decision")?;
        known_format("decision", decision.format)?;
        Ok(Transition {
            seq: self.seq("seq")?,
            event_id: self.event_id("event_id")?,
            name: self.id("name")?,
            at: self.time("at")?,
            decision,
        })
    }

    pub(crate) fn origin(self) -> Result<Origin> {
        Ok(match self.opt_seq("timer_seq")? {
            None => Origin::Posted,
            Some(armed_seq) => Origin::Timer { armed_seq },
        })
    }

    pub(crate) fn waiting(self) -> Result<Waiting> {
        let kept = match self.word("status", EventStatus::parse)? {
            EventStatus::Pending => Kept::Undecided,
            EventStatus::Deferred => Kept::Deferred,
            decided @ (EventStatus::Processing
            | EventStatus::Completed
            | EventStatus::Rejected
            | EventStatus::Failed
            | EventStatus::Dead) => return Err(bad("status", format!("{decided} in a mailbox"))),
        };
        Ok(Waiting {
            event_id: self.event_id("event_id")?,
            accept_no: self.accept_no("accept_no")?,
            name: self.id("name")?,
            payload: self.raw("payload")?,
            accepted_at: self.time("created_at")?,
            origin: self.origin()?,
            kept,
            attempts: self.small("attempts")?,
            traceparent: self.opt_text("traceparent")?,
        })
    }
}

fn known_format(column: &str, format: u8) -> Result<()> {
    if format > FORMAT {
        return Err(bad(column, format!("format {format} is newer than this build, which reads {FORMAT}")));
    }
    Ok(())
}

fn bad(column: &str, why: impl Display) -> StoreError {
    corrupt(format!("column {column}: {why}"))
}
