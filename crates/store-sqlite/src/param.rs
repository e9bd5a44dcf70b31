//! Domain values as parameters of statements.

use std::time::Duration;

use millstream_model::id::{ActionKey, Name};
use millstream_store::action_store::{FailureHandling, Lease};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::errors::{SqliteResult, corrupt_row};

/// The key of an action, in the order of its columns.
pub(crate) fn action_columns(key: &ActionKey) -> (&str, &str, i64, &str) {
    let ActionKey { execution, seq, action } = key;
    (execution.tenant.as_str(), execution.execution.as_str(), seq.0, action.as_str())
}

/// The key columns of a lease, in the order of the key.
pub(crate) fn lease_columns(lease: &Lease) -> (&str, &str, i64, &str, i64) {
    let (tenant, execution, seq, action) = action_columns(&lease.key);
    (tenant, execution, seq, action, lease.epoch.0)
}

/// A list of names as a JSON document.
pub(crate) fn encode_names(names: &[Name]) -> SqliteResult<std::borrow::Cow<'static, str>> {
    if names.is_empty() {
        return Ok("[]".into());
    }
    serde_json::to_string(names).map(Into::into).map_err(corrupt_row)
}

/// Unvalidated text. SQLite would store the character U+0000 in it, but its text functions and shell stop
/// there, and PostgreSQL refuses such text: the two must behave alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreeText<'a>(pub(crate) &'a str);

impl ToSql for FreeText<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if self.0.contains('\0') {
            return Err(rusqlite::Error::ToSqlConversionFailure("text contains U+0000".into()));
        }
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0.as_bytes())))
    }
}

pub(crate) fn free_text(text: Option<&str>) -> Option<FreeText<'_>> {
    text.map(FreeText)
}

/// A message for people, in which U+0000 becomes a mark: for messages only, never for data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageText<'a>(pub(crate) &'a str);

impl ToSql for MessageText<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if self.0.contains('\0') {
            return Ok(ToSqlOutput::from(self.0.replace('\0', "\u{fffd}")));
        }
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0.as_bytes())))
    }
}

pub(crate) fn message_text(text: Option<&str>) -> Option<MessageText<'_>> {
    text.map(MessageText)
}

pub(crate) const fn handling_column(handling: FailureHandling) -> bool {
    match handling {
        FailureHandling::Handled => true,
        FailureHandling::Unhandled => false,
    }
}

/// A duration for arithmetic in SQL, where a sum that overflows is no integer any more. It is capped; the cap
/// exceeds every lifetime.
pub(crate) fn millis(length: Duration) -> i64 {
    const LONGEST: i64 = i64::MAX / 4;
    i64::try_from(length.as_millis()).unwrap_or(LONGEST).min(LONGEST)
}

/// A `LIMIT`.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_refuses_nul_but_not_escape() {
        assert!(FreeText("a\0b").to_sql().is_err());
        assert!(FreeText(r#"{"a":"\u0000"}"#).to_sql().is_ok());
        let kept = MessageText("a\0b");
        assert_eq!(kept.to_sql().unwrap(), ToSqlOutput::from("a\u{fffd}b".to_owned()));
    }
}
