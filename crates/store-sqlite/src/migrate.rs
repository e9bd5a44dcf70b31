//! The tables: `migrations/sqlite`, embedded.

use millstream_store::{Result, StoreError};
use sqlx::migrate::{Migrate, Migrator};

use crate::connect::SqliteStore;
use crate::errors::store_error;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

impl SqliteStore {
    /// Bring the tables up to this build. Each migration is one transaction; those applied before are
    /// left alone, and one that was changed after it was applied is refused.
    pub async fn migrate(&self) -> Result<()> {
        MIGRATIONS
            .run(&self.writer)
            .await
            .map_err(|error| StoreError::Unavailable(format!("migration: {error}")))
    }

    /// Migrations of this build that the database lacks, by number and description.
    pub async fn pending(&self) -> Result<Vec<String>> {
        let mut connection = self.writer.acquire().await.map_err(store_error)?;
        let table = MIGRATIONS.table_name.as_ref();
        connection.ensure_migrations_table(table).await.map_err(migrate_error)?;
        let applied = connection.list_applied_migrations(table).await.map_err(migrate_error)?;
        Ok(MIGRATIONS
            .iter()
            .filter(|migration| applied.iter().all(|done| done.version != migration.version))
            .map(|migration| format!("{:04} {}", migration.version, migration.description))
            .collect())
    }
}

fn migrate_error(error: sqlx::migrate::MigrateError) -> StoreError {
    StoreError::Unavailable(format!("migration: {error}"))
}
