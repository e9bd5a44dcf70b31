//! The tables: `migrations/sqlite`, embedded.

use millstream_store::{Result, StoreError};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::errors::Attempt;

/// Every file of `migrations/sqlite`: number, description, text.
const FILES: &[(i64, &str, &str)] = &[
    (1, "spine", include_str!("../../../migrations/sqlite/0001_spine.sql")),
    (2, "work", include_str!("../../../migrations/sqlite/0002_work.sql")),
    (3, "graphs", include_str!("../../../migrations/sqlite/0003_graphs.sql")),
    (4, "accepted", include_str!("../../../migrations/sqlite/0004_accepted.sql")),
    (5, "outbox", include_str!("../../../migrations/sqlite/0005_outbox.sql")),
    (6, "devices", include_str!("../../../migrations/sqlite/0006_devices.sql")),
    (7, "people", include_str!("../../../migrations/sqlite/0007_people.sql")),
    (8, "notices", include_str!("../../../migrations/sqlite/0008_notices.sql")),
    (9, "standings", include_str!("../../../migrations/sqlite/0009_standings.sql")),
    (10, "keys", include_str!("../../../migrations/sqlite/0010_keys.sql")),
    (12, "quotas", include_str!("../../../migrations/sqlite/0012_quotas.sql")),
];

impl SqliteStore {
    /// Bring the tables up to this build, in one transaction. Those applied before are left alone, and one
    /// that was changed after it was applied is refused.
    pub async fn migrate(&self) -> Result<()> {
        self.write(migrate).await.map_err(|error| StoreError::Unavailable(format!("migration: {error}")))
    }

    /// Migrations of this build that the database lacks, by number and description.
    pub async fn pending(&self) -> Result<Vec<String>> {
        let applied = self.write(read_applied).await?;
        Ok(FILES
            .iter()
            .filter(|(version, _, _)| applied.iter().all(|done| done.version != *version))
            .map(|(version, description, _)| format!("{version:04} {description}"))
            .collect())
    }
}

/// The text itself is kept: nothing else tells so surely whether it was changed.
struct Applied {
    version: i64,
    text: String,
}

fn migrate(connection: &Connection) -> Attempt<()> {
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

fn read_applied(connection: &Connection) -> Attempt<Vec<Applied>> {
    const CREATE: &str = "
        CREATE TABLE IF NOT EXISTS migrations (
            version     INTEGER NOT NULL PRIMARY KEY,
            description TEXT    NOT NULL,
            text        TEXT    NOT NULL
        ) STRICT";
    connection.execute(CREATE, ())?;
    let mut read = connection.prepare("SELECT version, text FROM migrations ORDER BY version")?;
    let applied = read.query_map((), |row| Ok(Applied { version: row.get(0)?, text: row.get(1)? }))?;
    Ok(applied.collect::<rusqlite::Result<_>>()?)
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
