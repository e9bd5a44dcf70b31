//! Which database and which doorbell: the only place that names backends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use millstream_store::Stores;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};
use millstream_stream::Streams;
use millstream_stream::redis::{RedisOptions, RedisStream};

use crate::clear_text::{warn_about_database, warn_about_redis};
use crate::config::Config;
use crate::pem_files::redis_tls;

/// How long closing the connections may take.
const CLOSING: Duration = Duration::from_secs(2);

/// An open store.
#[derive(Debug)]
pub enum Database {
    Postgres(Arc<PostgresStore>),
    Sqlite(Arc<SqliteStore>),
}

impl Database {
    /// Open what `database_url` names. PostgreSQL need not be up yet.
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
            bail!(NoDatabase { path });
        }
        Self::open_sqlite(&path).await
    }

    /// Open a SQLite file, made when missing.
    pub async fn open_sqlite(path: &Path) -> Result<Self> {
        Ok(Self::Sqlite(SqliteStore::open(&path.to_string_lossy(), SqliteOptions::default()).await?))
    }

    pub fn stores(&self) -> Stores {
        match self {
            Self::Postgres(store) => Stores::of(store.clone()),
            Self::Sqlite(store) => Stores::of(store.clone()),
        }
    }

    pub async fn migrate(&self) -> Result<()> {
        match self {
            Self::Postgres(store) => Ok(store.migrate().await?),
            Self::Sqlite(store) => Ok(store.migrate().await?),
        }
    }

    pub async fn pending(&self) -> Result<Vec<String>> {
        match self {
            Self::Postgres(store) => Ok(store.pending().await?),
            Self::Sqlite(store) => Ok(store.pending().await?),
        }
    }

    /// Closes the connections; a database that does not answer is left without a goodbye.
    pub async fn close(&self) {
        let closing = async {
            match self {
                Self::Postgres(store) => store.close().await,
                Self::Sqlite(store) => store.close().await,
            }
        };
        if tokio::time::timeout(CLOSING, closing).await.is_err() {
            tracing::warn!("the database did not answer while closing");
        }
    }
}

/// A SQLite file that should be there is not.
#[derive(Debug, thiserror::Error)]
#[error("there is no database at {} (in {}); `millstream dev` makes one, --database-url names another", .path.display(), home(.path).display())]
pub struct NoDatabase {
    pub path: PathBuf,
}

/// The directory of a file.
pub(crate) fn home(path: &Path) -> &Path {
    path.parent().filter(|home| !home.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path in `sqlite://path`.
pub fn sqlite_path(url: &str) -> Option<PathBuf> {
    url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).map(PathBuf::from)
}

/// The store of a fleet: PostgreSQL, or an explanation.
pub async fn open_fleet_database(config: &Config) -> Result<Database> {
    if sqlite_path(&config.database_url).is_some() {
        bail!(
            "a fleet needs PostgreSQL: set MILLSTREAM_DATABASE_URL=postgres://… (SQLite belongs to one process, `millstream dev`)"
        );
    }
    warn_about_database(&config.database_url);
    Database::open(config).await
}

/// The doorbell of a fleet: Redis, or an explanation.
pub fn open_fleet_streams(config: &Config) -> Result<Streams> {
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
    Ok(Streams::of(RedisStream::connect(&config.redis_url, options)?))
}

/// A role on a database without its tables would fail at every call: say it once, at the start. A
/// database that is away is another matter; the role waits for it.
pub(crate) fn require_tables(pending: &Result<Vec<String>>) -> Result<()> {
    match pending {
        Ok(missing) if !missing.is_empty() => {
            bail!("the database is behind ({}); run `millstream migrate` first", missing.join(", "))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "cannot check the database's tables yet");
            Ok(())
        }
    }
}
