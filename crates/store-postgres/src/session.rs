//! Checks a new connection before it is used: the properties of its session.
//!
//! A commit is answered as durable, so `synchronous_commit` has to be `on` or stronger, whatever the role,
//! the database or the server sets. And the session has to be stable: behind a pooler that hands a server
//! connection to another client after each transaction, prepared statements and session settings do not stay
//! with their session. Both are checked in a transaction after the one that has set them.

use sqlx::{PgConnection, Row};

/// A setting that only this store knows: its presence shows that the startup parameters have arrived.
pub(crate) const MARK: &str = "millstream.session";

/// Facts that a session reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFacts {
    /// The server's process before and after the end of a transaction.
    pub(crate) backends: [i32; 2],
    /// The startup parameters have arrived.
    pub(crate) is_marked: bool,
    pub(crate) synchronous_commit: String,
}

/// Why a connection cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionFault {
    #[error(
        "the database is behind a pooler in transaction mode (the session changed between two transactions): connect \
         to PostgreSQL directly"
    )]
    Shared,
    #[error(
        "the startup settings do not reach PostgreSQL: a pooler in between drops them (PgBouncer with \
         ignore_startup_parameters); connect to PostgreSQL directly"
    )]
    Unmarked,
    #[error("synchronous_commit is {0:?} and cannot be set to \"on\": an acknowledged commit could be lost")]
    Asynchronous(String),
}

impl SessionFacts {
    pub(crate) fn check(&self) -> Result<(), SessionFault> {
        let [before, after] = self.backends;
        if before != after {
            return Err(SessionFault::Shared);
        }
        if !self.is_marked {
            return Err(SessionFault::Unmarked);
        }
        if !matches!(self.synchronous_commit.as_str(), "on" | "remote_apply") {
            return Err(SessionFault::Asynchronous(self.synchronous_commit.clone()));
        }
        Ok(())
    }
}

/// Applies the settings and checks them. The pool logs an error and discards the connection.
pub(crate) async fn prepare_session(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let facts = read_facts(connection).await?;
    facts.check().map_err(|fault| sqlx::Error::Protocol(fault.to_string()))
}

/// Without prepared statements, which a pooler would mix up.
pub(crate) async fn read_facts(connection: &mut PgConnection) -> Result<SessionFacts, sqlx::Error> {
    const SET: &str = "
SELECT pg_backend_pid(), CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply') THEN ''
                              ELSE set_config('synchronous_commit', 'on', false) END";
    const READ: &str = "
SELECT pg_backend_pid(), current_setting('synchronous_commit'),
       coalesce(current_setting('millstream.session', true), '')";
    let set = sqlx::raw_sql(SET).fetch_one(&mut *connection).await?;
    let read = sqlx::raw_sql(READ).fetch_one(connection).await?;
    Ok(SessionFacts {
        backends: [set.try_get(0)?, read.try_get(0)?],
        synchronous_commit: read.try_get(1)?,
        is_marked: read.try_get::<String, _>(2)? == "on",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_check_requires_stable_durable_session() {
        let good = SessionFacts { backends: [7, 7], is_marked: true, synchronous_commit: "on".to_owned() };
        assert_eq!(good.check(), Ok(()));
        let with =
            |setting: &str| SessionFacts { synchronous_commit: setting.to_owned(), ..good.clone() }.check();
        assert_eq!(with("remote_apply"), Ok(()));
        for weak in ["off", "local", "remote_write"] {
            assert_eq!(with(weak), Err(SessionFault::Asynchronous(weak.to_owned())));
        }
        let swapped = SessionFacts { backends: [7, 8], ..good.clone() };
        assert_eq!(swapped.check(), Err(SessionFault::Shared));
        let unmarked = SessionFacts { is_marked: false, ..good };
        assert_eq!(unmarked.check(), Err(SessionFault::Unmarked));
    }
}
