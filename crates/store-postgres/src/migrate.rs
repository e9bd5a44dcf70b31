//! Migrations, embedded in the program.
//!
//! Safe when several processes start at once: an advisory lock lets one of them migrate, the others find no
//! pending migration. Runs on a connection without the store's timeouts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use millstream_store::schema::{Release, SchemaState};
use millstream_store::{StoreError, StoreResult};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{ConnectOptions, Connection, PgConnection, SqlStr};

use crate::connect::PostgresStore;
use crate::errors::{PostgresFailure, PostgresResult};

/// Every file of the folder `migrations`: number, description, text. Listed by hand because the macro that
/// would find them builds the whole of sqlx a second time.
const FILES: &[(i64, &str, &str)] = &[
    (1, "spine", include_str!("../migrations/0001_spine.sql")),
    (2, "work", include_str!("../migrations/0002_work.sql")),
    (3, "graphs", include_str!("../migrations/0003_graphs.sql")),
    (4, "accepted", include_str!("../migrations/0004_accepted.sql")),
    (5, "outbox", include_str!("../migrations/0005_outbox.sql")),
    (6, "devices", include_str!("../migrations/0006_devices.sql")),
    (7, "people", include_str!("../migrations/0007_people.sql")),
    (8, "notices", include_str!("../migrations/0008_notices.sql")),
    (9, "standings", include_str!("../migrations/0009_standings.sql")),
    (10, "keys", include_str!("../migrations/0010_keys.sql")),
    (11, "releases", include_str!("../migrations/0011_releases.sql")),
    (12, "quotas", include_str!("../migrations/0012_quotas.sql")),
    (13, "open_runs", include_str!("../migrations/0013_open_runs.sql")),
    (14, "execution_lists", include_str!("../migrations/0014_execution_lists.sql")),
];

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |&(version, description, text): &(i64, &'static str, &'static str)| {
        Migration::new(version, description.into(), MigrationType::Simple, SqlStr::from_static(text), false)
    };
    let mut migrator = Migrator::with_migrations(FILES.iter().map(migration).collect());
    // Migrations of a newer release: the schema's state decides whether this build may work beside them.
    migrator.set_ignore_missing(true);
    migrator
});

impl PostgresStore {
    /// Apply what is pending.
    pub async fn migrate(&self) -> StoreResult<()> {
        let mut connection = self.own_connection().await?;
        let done = MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(migration_error);
        close_connection(connection).await;
        done
    }

    /// Which migrations are applied, and which releases may run. Changes nothing.
    pub async fn schema(&self) -> StoreResult<SchemaState> {
        let mut connection = self.own_connection().await?;
        let state = read_state(&mut connection).await.map_err(PostgresFailure::into_store_error);
        close_connection(connection).await;
        state
    }

    /// Records that releases before this one may no longer run. Returns the oldest release that may.
    pub async fn finish_upgrade(&self, release: Release) -> StoreResult<Release> {
        let mut connection = self.own_connection().await?;
        let oldest =
            raise_oldest_release(&mut connection, release).await.map_err(PostgresFailure::into_store_error);
        close_connection(connection).await;
        oldest
    }

    async fn own_connection(&self) -> StoreResult<PgConnection> {
        self.unlimited.connect().await.map_err(|error| PostgresFailure::from(error).into_store_error())
    }
}

/// The work is done; an error on closing changes nothing.
async fn close_connection(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "connection did not close cleanly");
    }
}

async fn read_state(connection: &mut PgConnection) -> PostgresResult<SchemaState> {
    let applied = applied_versions(&mut *connection).await?;
    let known = |version: &i64| MIGRATIONS.iter().any(|migration| migration.version == *version);
    let pending = MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version));
    Ok(SchemaState {
        pending: pending.map(|one| format!("{:04} {}", one.version, one.description)).collect(),
        unknown: applied.iter().copied().filter(|version| !known(version)).collect(),
        oldest_release: read_oldest_release(connection).await?,
    })
}

async fn read_oldest_release(connection: &mut PgConnection) -> PostgresResult<Option<Release>> {
    const EXISTS: &str = "SELECT to_regclass('settings') IS NOT NULL";
    const OLDEST: &str = "SELECT value FROM settings WHERE key = 'oldest_release'";
    if !sqlx::query_scalar::<_, bool>(EXISTS).fetch_one(&mut *connection).await? {
        return Ok(None);
    }
    let stored: Option<String> = sqlx::query_scalar(OLDEST).fetch_optional(connection).await?;
    let unreadable = |text: &str| {
        PostgresFailure::Undecodable(format!("{text:?} is not a release (settings, oldest_release)"))
    };
    stored.map(|text| Release::parse(&text).ok_or_else(|| unreadable(&text))).transpose()
}

async fn raise_oldest_release(connection: &mut PgConnection, release: Release) -> PostgresResult<Release> {
    const RAISE: &str = "
INSERT INTO settings (key, value) VALUES ('oldest_release', $1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    const LOCK: &str = "LOCK TABLE settings IN SHARE ROW EXCLUSIVE MODE";
    let mut transaction = connection.begin().await?;
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    let oldest = read_oldest_release(&mut transaction).await?.map_or(release, |stored| stored.max(release));
    sqlx::query(RAISE).bind(oldest.to_string()).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(oldest)
}

async fn applied_versions(connection: &mut PgConnection) -> PostgresResult<BTreeSet<i64>> {
    const EXISTS: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success";
    if !sqlx::query_scalar::<_, bool>(EXISTS).fetch_one(&mut *connection).await? {
        return Ok(BTreeSet::new());
    }
    let versions = sqlx::query_scalar::<_, i64>(APPLIED).fetch_all(connection).await?;
    Ok(versions.into_iter().collect())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum, and it is marked non-exhaustive")]
fn migration_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            PostgresFailure::from(error).into_store_error()
        }
        other => StoreError::Corrupt(format!("migrations: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn every_postgres_migration_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
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
