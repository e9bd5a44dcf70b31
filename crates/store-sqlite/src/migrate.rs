//! The tables: `migrations/sqlite`, embedded.

use std::sync::LazyLock;

use millstream_store::{Result, StoreError};
use sqlx::SqlStr;
use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};

use crate::connect::SqliteStore;
use crate::errors::store_error;

/// Every file of `migrations/sqlite`: number, description, text. Listed by hand because the macro that would
/// find them builds the whole of sqlx a second time.
const FILES: &[(i64, &str, &str)] =
    &[(1, "spine", include_str!("../../../migrations/sqlite/0001_spine.sql"))];

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |&(version, description, text): &(i64, &'static str, &'static str)| {
        Migration::new(version, description.into(), MigrationType::Simple, SqlStr::from_static(text), false)
    };
    Migrator::with_migrations(FILES.iter().map(migration).collect())
});

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

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn every_file_of_the_folder_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let listed: Vec<String> =
            FILES.iter().map(|(version, description, _)| format!("{version:04}_{description}.sql")).collect();
        assert_eq!(names, listed);
    }
}
