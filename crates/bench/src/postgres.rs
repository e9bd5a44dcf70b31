//! PostgreSQL for the bench: a private database per run, counts, sizes, settings.
//!
//! It never writes to a database that it did not create: with `postgres://…/name` it connects there only to
//! create and drop databases of its own.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row};
use url::Url;

use crate::error::{BenchError, BenchResult};

const NAME_PREFIX: &str = "millstream_bench_";

/// A database created for one run.
#[derive(Debug, Clone)]
pub(crate) struct PrivateDatabase {
    pub(crate) url: String,
    name: String,
    admin: String,
}

/// Properties of the server, durability above all.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PostgresFacts {
    pub version: String,
    pub settings: BTreeMap<String, String>,
    /// Parent process of our backend process; only when the server is on this machine.
    #[serde(skip)]
    pub(crate) postmaster: Option<u32>,
}

const SETTINGS: &[&str] = &[
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "wal_level",
    "commit_delay",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
];

impl PrivateDatabase {
    /// Creates an empty database on the server of `admin`.
    pub(crate) async fn create_database(admin: &str, run: &str) -> BenchResult<Self> {
        let name = format!("{NAME_PREFIX}{run}");
        let mut url = Url::parse(admin)
            .map_err(|error| BenchError::Usage(format!("the database url cannot be read: {error}")))?;
        url.set_path(&name);
        execute_statement(admin, format!("CREATE DATABASE {name}")).await?;
        Ok(Self { url: url.into(), name, admin: admin.to_owned() })
    }

    pub(crate) async fn drop_it(&self) -> BenchResult<()> {
        execute_statement(&self.admin, format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await
    }
}

/// Bytes on disk of the database of this URL.
pub(crate) async fn database_size(url: &str) -> BenchResult<u64> {
    let mut connection = connect_postgres(url).await?;
    let size: i64 = sqlx::query_scalar("SELECT pg_database_size(current_database())")
        .fetch_one(&mut connection)
        .await
        .map_err(postgres_error)?;
    Ok(size.unsigned_abs())
}

pub(crate) async fn server_facts(url: &str) -> BenchResult<PostgresFacts> {
    let mut connection = connect_postgres(url).await?;
    let version: String = sqlx::query_scalar("SELECT current_setting('server_version')")
        .fetch_one(&mut connection)
        .await
        .map_err(postgres_error)?;
    let rows = sqlx::query("SELECT name, current_setting(name) AS value FROM unnest($1::text[]) AS name")
        .bind(SETTINGS)
        .fetch_all(&mut connection)
        .await
        .map_err(postgres_error)?;
    let mut settings = BTreeMap::new();
    for row in rows {
        settings.insert(
            row.try_get("name").map_err(postgres_error)?,
            row.try_get("value").map_err(postgres_error)?,
        );
    }
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut connection)
        .await
        .map_err(postgres_error)?;
    let postmaster =
        if is_local(url) { crate::process::named_parent(backend.unsigned_abs(), "postgres") } else { None };
    Ok(PostgresFacts { version, settings, postmaster })
}

fn is_local(url: &str) -> bool {
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    matches!(host.as_str(), "" | "localhost" | "127.0.0.1" | "[::1]" | "::1")
}

pub(crate) async fn connect_postgres(url: &str) -> BenchResult<PgConnection> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| BenchError::Usage(format!("the database url cannot be used: {error}")))?;
    // Dropping a large database is slow; a log line about it is not useful.
    let connection = PgConnection::connect_with(&options.disable_statement_logging()).await;
    connection.map_err(|error| BenchError::unreachable("PostgreSQL", error))
}

async fn execute_statement(url: &str, statement: String) -> BenchResult<()> {
    let mut connection = connect_postgres(url).await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.map_err(postgres_error)?;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn postgres_error(error: sqlx::Error) -> BenchError {
    BenchError::Wrong(format!("PostgreSQL: {error}"))
}
