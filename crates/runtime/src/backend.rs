//! Backend selection: opens the database and the doorbell. The only place that names backends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use millstream_store::Stores;
use millstream_store::schema::{Release, SchemaFit, SchemaState};
use millstream_store_postgres::{PostgresOptions, PostgresStore, ServerCheck};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};
use millstream_stream::StreamHandles;
use millstream_stream::redis::{RedisOptions, RedisStream};

use crate::clear_text::{warn_about_database, warn_about_redis};
use crate::config::Config;
use crate::fault_injection;
use crate::pem_files::redis_tls;

/// Upper bound on closing the connections.
const CLOSING: Duration = Duration::from_secs(2);

/// An open store.
#[derive(Debug)]
pub enum Database {
    Postgres(Arc<PostgresStore>),
    Sqlite(Arc<SqliteStore>),
}

impl Database {
    /// Opens the database that `database_url` names. PostgreSQL may be down.
    pub async fn open(config: &Config) -> Result<Self> {
        let url = &config.database_url;
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options = PostgresOptions {
                max_connections: config.postgres.connections,
                statement_timeout: config.postgres.statement_timeout.0,
                lock_timeout: config.postgres.lock_timeout.0,
                acquire_timeout: config.postgres.acquire_timeout.0,
                ..PostgresOptions::default()
            };
            return Ok(Self::Postgres(PostgresStore::connect(url, options).await?));
        }
        let Some(path) = sqlite_path(url) else {
            bail!("the setting `database_url` must begin with postgres:// or sqlite://");
        };
        if !path.exists() {
            bail!(MissingSqliteFile { path });
        }
        Self::open_sqlite(&path).await
    }

    /// Open a SQLite file, made when missing.
    pub async fn open_sqlite(path: &Path) -> Result<Self> {
        Ok(Self::Sqlite(SqliteStore::open(&path.to_string_lossy(), SqliteOptions::default()).await?))
    }

    pub fn stores(&self) -> Stores {
        match self {
            Self::Postgres(store) => Stores::from_backend(store.clone()),
            Self::Sqlite(store) => Stores::from_backend(store.clone()),
        }
    }

    /// Migrates the tables to this build. A database whose upgrade was finished by a newer release stays
    /// unchanged.
    pub async fn migrate(&self) -> Result<()> {
        let ours = fault_injection::claimed_release()?;
        match self.schema_state().await?.judge_release(ours) {
            SchemaFit::Finished { oldest } => bail!(release_too_old(ours, oldest)),
            SchemaFit::Newer { unknown } => warn_of_newer_tables(&unknown),
            SchemaFit::Exact | SchemaFit::Behind { .. } => {}
        }
        match self {
            Self::Postgres(store) => Ok(store.migrate().await?),
            Self::Sqlite(store) => Ok(store.migrate().await?),
        }
    }

    /// The state of the migrations in the database.
    pub async fn schema_state(&self) -> Result<SchemaState> {
        match self {
            Self::Postgres(store) => Ok(store.schema().await?),
            Self::Sqlite(store) => Ok(store.schema().await?),
        }
    }

    /// Records that releases before this one may no longer run; returns the oldest that may.
    pub async fn finish_upgrade(&self) -> Result<Release> {
        let ours = fault_injection::claimed_release()?;
        match self {
            Self::Postgres(store) => Ok(store.finish_upgrade(ours).await?),
            Self::Sqlite(store) => Ok(store.finish_upgrade(ours).await?),
        }
    }

    /// Fails on a server that would lose acknowledged data or mix up sessions; warns about one that does not
    /// survive a power failure. While the server is down the check is deferred: each new connection performs
    /// it.
    pub(crate) async fn check_server(&self) -> Result<()> {
        let Self::Postgres(store) = self else { return Ok(()) };
        match store.check_server().await {
            Ok(ServerCheck::Usable { warnings }) => {
                for warning in warnings {
                    tracing::error!("UNSAFE: {warning}");
                }
                Ok(())
            }
            Ok(ServerCheck::Refused(why)) => bail!("this database cannot be used: {why}"),
            Err(error) => {
                tracing::warn!(%error, "cannot check the settings of the database server yet");
                Ok(())
            }
        }
    }

    /// Closes the connections; gives up on a database that does not answer.
    pub async fn close(&self) {
        let closing = async {
            match self {
                Self::Postgres(store) => store.close().await,
                Self::Sqlite(store) => store.close().await,
            }
        };
        if tokio::time::timeout(CLOSING, closing).await.is_err() {
            tracing::warn!("the database did not answer within the time to close");
        }
    }
}

/// The SQLite file does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no database at {} (in {}); `millstream dev` makes one, --database-url names another", .path.display(), parent_directory(.path).display())]
pub struct MissingSqliteFile {
    pub path: PathBuf,
}

/// The directory that contains a file.
pub(crate) fn parent_directory(path: &Path) -> &Path {
    path.parent().filter(|home| !home.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path in `sqlite://path`.
pub fn sqlite_path(url: &str) -> Option<PathBuf> {
    url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).map(PathBuf::from)
}

/// The store of a fleet: PostgreSQL, or an error that explains the requirement.
pub async fn open_fleet_database(config: &Config) -> Result<Database> {
    if sqlite_path(&config.database_url).is_some() {
        bail!(
            "a fleet needs PostgreSQL: set MILLSTREAM_DATABASE_URL=postgres://… (SQLite belongs to one process, `millstream dev`)"
        );
    }
    warn_about_database(&config.database_url);
    Database::open(config).await
}

/// The doorbell of a fleet: Redis, or an error that explains the requirement.
pub fn open_fleet_streams(config: &Config) -> Result<StreamHandles> {
    if config.redis_url.is_empty() {
        bail!("a fleet needs Redis: set MILLSTREAM_REDIS_URL=redis://…");
    }
    warn_about_redis("redis_url", &config.redis_url);
    let options = RedisOptions {
        tls: redis_tls(config, &config.redis_url)?,
        prefix: config.redis.prefix.clone(),
        connections: config.redis.connections,
        ..RedisOptions::default()
    };
    Ok(StreamHandles::from_backend(RedisStream::connect(&config.redis_url, options)?))
}

/// Schema check at the start of a role. On incompatible tables every call would fail or corrupt data. An
/// unreachable database passes: the role waits for it.
pub(crate) async fn require_usable(database: &Database) -> Result<()> {
    database.check_server().await?;
    let ours = fault_injection::claimed_release()?;
    match database.schema_state().await.map(|state| state.judge_release(ours)) {
        Ok(SchemaFit::Exact) => {}
        Ok(SchemaFit::Newer { unknown }) => warn_of_newer_tables(&unknown),
        Ok(SchemaFit::Behind { pending }) => {
            bail!("the database is behind ({}); run `millstream migrate` first", pending.join(", "))
        }
        Ok(SchemaFit::Finished { oldest }) => bail!(release_too_old(ours, oldest)),
        Err(error) => tracing::warn!(%error, "cannot check the database's tables yet"),
    }
    Ok(())
}

/// Advice for a build that is older than the database allows.
pub fn release_too_old(ours: Release, oldest: Release) -> String {
    format!(
        "this is release {ours}, but the database requires {oldest} or newer (`migrate --finish` was run): start \
         {oldest} or newer, or restore a backup from before"
    )
}

fn warn_of_newer_tables(unknown: &[i64]) {
    let unknown: Vec<String> = unknown.iter().map(|version| format!("{version:04}")).collect();
    tracing::warn!(
        migrations = unknown.join(", "),
        "a newer release has migrated this database; this one works on it until `migrate --finish` is run there"
    );
}

#[cfg(test)]
mod tests {
    use millstream_testkit::captured_log::CapturedLog;
    use millstream_testkit::pooler::{StartupOptions, TestPooler};
    use millstream_testkit::postgres;

    use super::*;
    use crate::config::{ConfigFlags, merge_layers};

    fn config_with(env: &[(&str, &str)]) -> Config {
        let env = env.iter().map(|(key, value)| (format!("MILLSTREAM_{key}"), (*value).to_owned()));
        merge_layers(None, env, &ConfigFlags::default()).unwrap()
    }

    async fn open_database(url: &str) -> Database {
        Database::open(&config_with(&[("DATABASE_URL", url)])).await.unwrap()
    }

    #[tokio::test]
    async fn role_refuses_finished_newer_schema() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open_sqlite(&dir.path().join("millstream.db")).await.unwrap();
        database.migrate().await.unwrap();
        require_usable(&database).await.unwrap();
        let newer = Release { minor: Release::OURS.minor + 1, ..Release::OURS };
        match &database {
            Database::Sqlite(store) => store.finish_upgrade(newer).await.unwrap(),
            Database::Postgres(store) => store.finish_upgrade(newer).await.unwrap(),
        };
        let advice = format!("start {newer} or newer");
        for refused in [require_usable(&database).await, database.migrate().await] {
            let refusal = refused.unwrap_err().to_string();
            assert!(refusal.contains(&advice), "{refusal}");
        }
    }

    #[tokio::test]
    async fn role_warns_about_newer_tables() {
        const NEWER: &str =
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                             VALUES (99, 'newer', true, '\\x00', 0)";
        let server = postgres::private_database().await;
        let database = open_database(&server.url).await;
        database.migrate().await.unwrap();
        postgres::execute_statement(&server.url, NEWER).await;
        let log = CapturedLog::start_capture();
        require_usable(&database).await.unwrap();
        assert!(log.text().contains("a newer release has migrated this database"), "{}", log.text());
        assert!(log.text().contains("0099"), "{}", log.text());
    }

    #[tokio::test]
    async fn role_refuses_transaction_pooler() {
        let server = postgres::private_database().await;
        open_database(&server.url).await.migrate().await.unwrap();
        let (_pooler, url) = TestPooler::in_front_of(&server.url, StartupOptions::Forwarded).await;
        let refusal = require_usable(&open_database(&url).await).await.unwrap_err().to_string();
        assert!(refusal.contains("this database cannot be used"), "{refusal}");
        assert!(refusal.contains("transaction mode"), "{refusal}");
    }

    #[tokio::test]
    async fn unsafe_postgres_settings_are_logged() {
        // Test clusters run with fsync=off.
        let server = postgres::private_cluster().await;
        let database = open_database(&server.database_url("postgres")).await;
        database.migrate().await.unwrap();
        let log = CapturedLog::start_capture();
        require_usable(&database).await.unwrap();
        assert!(log.text().contains("UNSAFE: PostgreSQL runs with fsync=off"), "{}", log.text());
    }

    #[tokio::test]
    async fn clear_text_passwords_are_logged() {
        let database = "postgres://me:pw@db.example/millstream?sslmode=";
        for (mode, warning) in [
            ("disable", Some("cross the network in clear text")),
            ("prefer", Some("only if the server offers it")),
            ("verify-full", None),
        ] {
            let log = CapturedLog::start_capture();
            open_fleet_database(&config_with(&[("DATABASE_URL", &format!("{database}{mode}"))]))
                .await
                .unwrap();
            let text = log.text();
            assert!(warning.map_or(text.is_empty(), |warning| text.contains(warning)), "{mode}: {text}");
        }
        for (url, warning) in [("redis://:pw@redis.example", true), ("redis://redis.example", false)] {
            let log = CapturedLog::start_capture();
            open_fleet_streams(&config_with(&[("REDIS_URL", url)])).unwrap();
            let warned = log.text().contains("the password of Redis crosses the network in clear text");
            assert_eq!(warned, warning, "{url}: {}", log.text());
        }
    }
}
