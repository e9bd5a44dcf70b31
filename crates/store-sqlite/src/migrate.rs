//! Migrations: the files of `migrations` in this crate, embedded.

use millstream_store::schema::{Release, SchemaState};
use millstream_store::{StoreError, StoreResult};
use rusqlite::{Connection, OptionalExtension};

use crate::connect::SqliteStore;
use crate::errors::SqliteResult;

/// Every file of the folder `migrations`: number, description, text.
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

impl SqliteStore {
    /// Apply pending migrations, in one transaction. Applied ones are skipped, and one that was changed after
    /// it was applied is refused.
    pub async fn migrate(&self) -> StoreResult<()> {
        self.write_transaction(apply_migrations)
            .await
            .map_err(|error| StoreError::Unavailable(format!("migration: {error}")))
    }

    /// Which migrations are applied, and which releases may run.
    pub async fn schema(&self) -> StoreResult<SchemaState> {
        self.write_transaction(read_state).await
    }

    /// Records that releases before this one may no longer run. Returns the oldest release that may.
    pub async fn finish_upgrade(&self, release: Release) -> StoreResult<Release> {
        const RAISE: &str = "
            INSERT INTO settings (key, value) VALUES ('oldest_release', ?1)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.write_transaction(move |connection| {
            let stored = read_oldest_release(connection)?;
            let oldest = stored.map_or(release, |stored| stored.max(release));
            connection.execute(RAISE, [oldest.to_string()])?;
            Ok(oldest)
        })
        .await
    }
}

/// The text itself is stored, because it detects any later change most reliably.
struct AppliedMigration {
    version: i64,
    text: String,
}

fn read_state(connection: &Connection) -> SqliteResult<SchemaState> {
    let applied = read_applied(connection)?;
    let lacks = |version: &i64| applied.iter().all(|done| done.version != *version);
    let is_known = |version: &i64| FILES.iter().any(|(known, _, _)| known == version);
    Ok(SchemaState {
        pending: FILES
            .iter()
            .filter(|(version, _, _)| lacks(version))
            .map(|(version, description, _)| format!("{version:04} {description}"))
            .collect(),
        unknown: applied.iter().map(|done| done.version).filter(|version| !is_known(version)).collect(),
        oldest_release: read_oldest_release(connection)?,
    })
}

fn read_oldest_release(connection: &Connection) -> SqliteResult<Option<Release>> {
    const EXISTS: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'settings'";
    const OLDEST: &str = "SELECT value FROM settings WHERE key = 'oldest_release'";
    if connection.query_row(EXISTS, (), |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    let stored: Option<String> = connection.query_row(OLDEST, (), |row| row.get(0)).optional()?;
    let unreadable =
        |text: &str| StoreError::Corrupt(format!("{text:?} is not a release (settings, oldest_release)"));
    Ok(stored.map(|text| Release::parse(&text).ok_or_else(|| unreadable(&text))).transpose()?)
}

fn apply_migrations(connection: &Connection) -> SqliteResult<()> {
    const RECORD: &str = "INSERT INTO migrations (version, description, text) VALUES (?1, ?2, ?3)";
    let applied = read_applied(connection)?;
    for (version, description, text) in FILES {
        match applied.iter().find(|done| done.version == *version) {
            Some(done) if done.text == *text => {}
            Some(_) => {
                let why = format!("{version:04} {description} was changed after it was applied");
                return Err(StoreError::Unavailable(why).into());
            }
            None => {
                connection.execute_batch(text)?;
                connection.execute(RECORD, (version, description, text))?;
            }
        }
    }
    Ok(())
}

fn read_applied(connection: &Connection) -> SqliteResult<Vec<AppliedMigration>> {
    const CREATE: &str = "
        CREATE TABLE IF NOT EXISTS migrations (
            version     INTEGER NOT NULL PRIMARY KEY,
            description TEXT    NOT NULL,
            text        TEXT    NOT NULL
        ) STRICT";
    connection.execute(CREATE, ())?;
    let mut read = connection.prepare("SELECT version, text FROM migrations ORDER BY version")?;
    let applied =
        read.query_map((), |row| Ok(AppliedMigration { version: row.get(0)?, text: row.get(1)? }))?;
    Ok(applied.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn every_sqlite_migration_is_listed() {
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
