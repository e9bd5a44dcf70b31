//! Maps errors of SQLite to the store's errors.
//!
//! Busy and locked count as unavailable and not as contention: there is one writer, so another process (a
//! shell, a backup) holds the lock, and SQLite has already waited for the busy timeout.

use std::fmt::Display;

use millstream_store::StoreError;
use rusqlite::Error;

/// The result of work on a connection.
pub(crate) type SqliteResult<T> = std::result::Result<T, SqliteFailure>;

/// Why such work failed. It lets `?` convert the driver's errors and this crate's.
#[derive(Debug)]
pub(crate) struct SqliteFailure(StoreError);

/// The primary result codes that blame the data and not the moment.
mod code {
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const TOOBIG: i32 = 18;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const MISMATCH: i32 = 20;
    pub(super) const RANGE: i32 = 25;
    pub(super) const NOTADB: i32 = 26;
}

impl From<Error> for SqliteFailure {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the driver's type may grow; errors that do not clearly concern the data may be temporary"
    )]
    fn from(error: Error) -> Self {
        Self(match &error {
            // Extended codes carry the primary one in their low byte.
            Error::SqliteFailure(failure, _) => match failure.extended_code & 0xff {
                code::CORRUPT
                | code::TOOBIG
                | code::CONSTRAINT
                | code::MISMATCH
                | code::RANGE
                | code::NOTADB => StoreError::Corrupt(with_code(&error, failure.extended_code)),
                _ => StoreError::Unavailable(with_code(&error, failure.extended_code)),
            },
            Error::FromSqlConversionFailure(..)
            | Error::ToSqlConversionFailure(_)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
            | Error::InvalidColumnType(..)
            | Error::InvalidColumnName(_)
            | Error::InvalidColumnIndex(_)
            | Error::QueryReturnedNoRows => StoreError::Corrupt(error.to_string()),
            _ => StoreError::Unavailable(error.to_string()),
        })
    }
}

fn with_code(error: &Error, code: i32) -> String {
    format!("{error} (code {code})")
}

impl From<StoreError> for SqliteFailure {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl From<SqliteFailure> for StoreError {
    fn from(failure: SqliteFailure) -> Self {
        failure.0
    }
}

impl Display for SqliteFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

pub(crate) fn corrupt_row(what: impl Display) -> SqliteFailure {
    SqliteFailure(StoreError::Corrupt(what.to_string()))
}
