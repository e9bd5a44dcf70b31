//! Maps errors of the database to the store's errors.

use millstream_store::StoreError;

/// Why an attempt at a transaction failed, before it is known to the caller.
#[derive(Debug)]
pub(crate) enum PostgresFailure {
    Sql(sqlx::Error),
    /// A row that does not decode.
    Undecodable(String),
    /// Rows changed between two statements more often than this store retries.
    Unsettled(&'static str),
}

/// The result of every statement.
pub(crate) type PostgresResult<T> = std::result::Result<T, PostgresFailure>;

impl From<sqlx::Error> for PostgresFailure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl PostgresFailure {
    /// Whether the key already has a row.
    pub(crate) fn is_duplicate(&self) -> bool {
        match self {
            Self::Sql(sqlx::Error::Database(error)) => error.is_unique_violation(),
            Self::Sql(_) | Self::Undecodable(_) | Self::Unsettled(_) => false,
        }
    }

    /// Stored data that cannot be decoded is reported as the contract's own error.
    pub(crate) fn from_store(error: StoreError) -> Self {
        Self::Undecodable(match error {
            StoreError::Corrupt(reason) => reason,
            StoreError::Unavailable(_) | StoreError::Contention(_) => error.to_string(),
        })
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Sql(error) => classify(&error),
            Self::Undecodable(reason) => StoreError::Corrupt(reason),
            Self::Unsettled(reason) => StoreError::Contention(reason.to_owned()),
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum, and it is marked non-exhaustive")]
fn classify(error: &sqlx::Error) -> StoreError {
    let text = error.to_string();
    match error {
        sqlx::Error::Database(database) => match database.code() {
            Some(code) => by_code(&code, format!("{text} ({code})")),
            None => StoreError::Unavailable(text),
        },
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::RowNotFound => StoreError::Corrupt(text),
        // Io, Tls, closed or exhausted pools, a protocol out of step.
        _ => StoreError::Unavailable(text),
    }
}

/// By SQLSTATE. A code that does not clearly blame the data is retried later: a schema that is not migrated
/// yet, a server that starts, stops, is read-only or out of memory.
fn by_code(code: &str, text: String) -> StoreError {
    match code {
        "40001" | "40P01" => StoreError::Contention(text),
        _ if ["21", "22", "23", "54"].contains(&code.get(..2).unwrap_or_default()) => {
            StoreError::Corrupt(text)
        }
        _ => StoreError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: &str) -> &'static str {
        match by_code(code, String::new()) {
            StoreError::Unavailable(_) => "unavailable",
            StoreError::Contention(_) => "contention",
            StoreError::Corrupt(_) => "corrupt",
        }
    }

    #[test]
    fn contention_codes_retry_immediately() {
        assert_eq!(["40001", "40P01"].map(kind), ["contention"; 2]);
    }

    #[test]
    fn data_errors_are_not_retried() {
        // An invalid character, a unique key, a check, an index entry that is too long.
        assert_eq!(["22021", "23505", "23514", "54000"].map(kind), ["corrupt"; 4]);
    }

    #[test]
    fn server_errors_are_unavailable() {
        // Shutting down, starting, statement or lock timeout, disk full, too many connections,
        // read-only after a failover, not migrated yet.
        let codes = ["57P01", "57P03", "57014", "55P03", "53100", "53300", "25006", "42P01"];
        assert_eq!(codes.map(kind), ["unavailable"; 8]);
    }
}
