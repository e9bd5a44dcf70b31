//! Checks the server at start-up: whether it may be used, and warnings for its operator.

use std::time::Duration;

use millstream_store::{StoreError, StoreResult};
use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::time::timeout;

use crate::connect::PostgresStore;
use crate::errors::{PostgresFailure, PostgresResult};
use crate::session::{self, SessionFault};

/// How long a second session may wait for the first: behind a pooler with one connection it would wait for
/// ever.
const PATIENCE: Duration = Duration::from_secs(3);

/// The result of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerCheck {
    /// Usable. Each warning names the possible loss.
    Usable { warnings: Vec<String> },
    /// Unusable, and why.
    Refused(String),
}

impl PostgresStore {
    /// Checks the server over connections of its own. An unreachable server is an error.
    pub async fn check_server(&self) -> StoreResult<ServerCheck> {
        match timeout(self.call_timeout(), self.look_at_server()).await {
            Ok(looked) => looked.map_err(PostgresFailure::into_store_error),
            Err(_) => Err(StoreError::Unavailable("the server did not answer in time".to_owned())),
        }
    }

    async fn look_at_server(&self) -> PostgresResult<ServerCheck> {
        let mut first = match self.limited.connect().await {
            Ok(connection) => connection,
            Err(error) if drops_parameters(&error) => {
                return Ok(ServerCheck::Refused(format!("{}: {error}", SessionFault::Unmarked)));
            }
            Err(error) => return Err(error.into()),
        };
        let facts = session::read_facts(&mut first).await?;
        if let Err(fault) = facts.check() {
            return Ok(ServerCheck::Refused(fault.to_string()));
        }
        let mut second = self.limited.connect().await?;
        if shares_backend(&mut first, &mut second).await? {
            return Ok(ServerCheck::Refused(SessionFault::Shared.to_string()));
        }
        let warnings = durability_warnings(&read_durability(&mut first).await?);
        for connection in [first, second] {
            if let Err(error) = connection.close().await {
                tracing::debug!(%error, "connection did not close cleanly");
            }
        }
        Ok(ServerCheck::Usable { warnings })
    }
}

/// PgBouncer refuses unknown parameters, unless it is configured to drop them.
fn drops_parameters(error: &sqlx::Error) -> bool {
    error.to_string().contains("unsupported startup parameter")
}

/// Whether the second session, in a transaction, uses the server process of the first, or blocks it.
async fn shares_backend(first: &mut PgConnection, second: &mut PgConnection) -> PostgresResult<bool> {
    let own = read_backend(first).await?;
    sqlx::raw_sql("BEGIN").execute(&mut *second).await?;
    let other = read_backend(second).await?;
    let again = timeout(PATIENCE, read_backend(first)).await;
    sqlx::raw_sql("ROLLBACK").execute(second).await?;
    Ok(match again {
        Ok(again) => own == other || own != again?,
        Err(_) => true,
    })
}

async fn read_backend(connection: &mut PgConnection) -> PostgresResult<i32> {
    Ok(sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)?)
}

/// Settings of the server by which a power failure loses answered commits, or the database.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerDurability {
    fsync: bool,
    full_page_writes: bool,
}

async fn read_durability(connection: &mut PgConnection) -> PostgresResult<ServerDurability> {
    const READ: &str =
        "SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean";
    let row = sqlx::raw_sql(READ).fetch_one(connection).await?;
    Ok(ServerDurability { fsync: row.try_get(0)?, full_page_writes: row.try_get(1)? })
}

fn durability_warnings(durability: &ServerDurability) -> Vec<String> {
    let mut warnings = Vec::new();
    if !durability.fsync {
        warnings.push(
            "PostgreSQL runs with fsync=off: a power failure or a crash of the machine loses accepted events and can \
             destroy the database; set fsync=on"
                .to_owned(),
        );
    }
    if !durability.full_page_writes {
        warnings.push(
            "PostgreSQL runs with full_page_writes=off: a power failure or a crash of the machine can destroy the \
             database; set full_page_writes=on unless the file system writes whole pages"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_server_settings_give_named_warnings() {
        let safe = ServerDurability { fsync: true, full_page_writes: true };
        assert_eq!(durability_warnings(&safe), Vec::<String>::new());
        let warnings = durability_warnings(&ServerDurability { fsync: false, full_page_writes: false });
        assert!(
            warnings[0].contains("fsync=off") && warnings[1].contains("full_page_writes=off"),
            "{warnings:?}"
        );
    }
}
