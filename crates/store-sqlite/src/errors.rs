//! What SQLite says, as a decision for the caller.
//!
//! Busy and locked count as unavailable and not as contention: there is one writer, so the lock is
//! somebody else's (a shell, a backup), and SQLite has already waited for it as long as it was told.

use std::fmt::Display;

use millstream_store::StoreError;
use sqlx::Error;

/// The primary result codes that blame the data and not the moment.
mod code {
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const TOOBIG: u32 = 18;
    pub(super) const CONSTRAINT: u32 = 19;
    pub(super) const MISMATCH: u32 = 20;
    pub(super) const RANGE: u32 = 25;
    pub(super) const NOTADB: u32 = 26;
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's type may grow; what is not known to be about the data may pass"
)]
pub(crate) fn store_error(error: Error) -> StoreError {
    match &error {
        Error::Database(database) => {
            let code = database.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or(0);
            // Extended codes carry the primary one in their low byte.
            match code & 0xff {
                code::CORRUPT
                | code::TOOBIG
                | code::CONSTRAINT
                | code::MISMATCH
                | code::RANGE
                | code::NOTADB => StoreError::Corrupt(format!("{error} (code {code})")),
                _ => StoreError::Unavailable(format!("{error} (code {code})")),
            }
        }
        Error::ColumnDecode { .. }
        | Error::Decode(_)
        | Error::Encode(_)
        | Error::TypeNotFound { .. }
        | Error::RowNotFound => corrupt(&error),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

pub(crate) fn corrupt(what: impl Display) -> StoreError {
    StoreError::Corrupt(what.to_string())
}
