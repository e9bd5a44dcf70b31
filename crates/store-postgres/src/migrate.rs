//! The schema, brought up to date by the program itself.
//!
//! Safe when several processes start at once: an advisory lock lets one of them work, the others find
//! nothing left to do. Runs on a connection without our timeouts.

use std::collections::BTreeSet;

use millstream_store::{Result, StoreError};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{ConnectOptions, Connection, PgConnection};

use crate::connect::PostgresStore;
use crate::errors::Failure;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

impl PostgresStore {
    /// Apply what is pending.
    pub async fn migrate(&self) -> Result<()> {
        let mut connection = self.own_connection().await?;
        let done = MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(explain);
        close(connection).await;
        done
    }

    /// Descriptions of the migrations that are not applied. Changes nothing.
    pub async fn pending(&self) -> Result<Vec<String>> {
        let mut connection = self.own_connection().await?;
        let applied = applied_versions(&mut connection).await.map_err(Failure::into_store_error);
        close(connection).await;
        let applied = applied?;
        Ok(MIGRATIONS
            .iter()
            .filter(|migration| !applied.contains(&migration.version))
            .map(|migration| format!("{:04} {}", migration.version, migration.description))
            .collect())
    }

    async fn own_connection(&self) -> Result<PgConnection> {
        self.unlimited.connect().await.map_err(|error| Failure::from(error).into_store_error())
    }
}

/// The work is done; a failure to say goodbye changes nothing.
async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "connection did not close cleanly");
    }
}

async fn applied_versions(connection: &mut PgConnection) -> std::result::Result<BTreeSet<i64>, Failure> {
    const EXISTS: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success";
    if !sqlx::query_scalar::<_, bool>(EXISTS).fetch_one(&mut *connection).await? {
        return Ok(BTreeSet::new());
    }
    let versions = sqlx::query_scalar::<_, i64>(APPLIED).fetch_all(connection).await?;
    Ok(versions.into_iter().collect())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "not our enum, and it is marked non-exhaustive")]
fn explain(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Failure::from(error).into_store_error()
        }
        other => StoreError::Corrupt(format!("migrations: {other}")),
    }
}
