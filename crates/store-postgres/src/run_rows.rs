//! Rows of runs and their seats: read and locked in bulk. Writes are in [`crate::run_write`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_devices::claim::SeatToken;
use millstream_model::id::RunKey;
use millstream_store::run_commit::PresentRun;
use millstream_store::run_seats::{self, StoredHeartbeat};
use millstream_store::run_store::StoredRun;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};

/// Runs as two arrays.
#[derive(Debug, Default)]
pub(crate) struct RunColumns<'a> {
    tenants: Vec<&'a str>,
    runs: Vec<&'a str>,
}

impl<'a> FromIterator<&'a RunKey> for RunColumns<'a> {
    fn from_iter<I: IntoIterator<Item = &'a RunKey>>(keys: I) -> Self {
        let mut columns = Self::default();
        for key in keys {
            columns.tenants.push(key.tenant.as_str());
            columns.runs.push(key.run.as_str());
        }
        columns
    }
}

impl RunColumns<'_> {
    /// As `$1` and `$2`.
    pub(crate) fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(&self.tenants).bind(&self.runs)
    }
}

pub(crate) async fn load(
    warm: &WarmConnections,
    keys: &[RunKey],
) -> PostgresResult<HashMap<RunKey, StoredRun>> {
    const READ: &str = "
SELECT r.*
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS u(tenant, run_id)) k
CROSS JOIN LATERAL (SELECT r.* FROM runs r WHERE r.tenant = k.tenant AND r.run_id = k.run_id OFFSET 0) r";
    let columns: RunColumns<'_> = keys.iter().collect();
    let rows = warm.fetch_rows(columns.bound(READ)).await?;
    let found = assemble(warm, &rows).await?;
    Ok(found.into_iter().map(|run| (run.key.clone(), run)).collect())
}

/// Runs of rows, with the heartbeats of their devices since.
pub(crate) async fn assemble(warm: &WarmConnections, rows: &[PgRow]) -> PostgresResult<Vec<StoredRun>> {
    const HEARD: &str = "
SELECT s.tenant, s.run_id, s.seat, s.token, s.heard_at, s.progress
FROM unnest($1::text[], $2::text[]) AS k(tenant, run_id)
CROSS JOIN LATERAL (
    SELECT s.* FROM run_seats s
    WHERE s.tenant = k.tenant AND s.run_id = k.run_id AND s.heard_at IS NOT NULL AND s.token IS NOT NULL
    OFFSET 0) s";
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let keys = rows.iter().map(decode::run_key).collect::<PostgresResult<Vec<_>>>()?;
    let columns: RunColumns<'_> = keys.iter().collect();
    let mut heard: HashMap<RunKey, Vec<StoredHeartbeat>> = HashMap::new();
    for row in &warm.fetch_rows(columns.bound(HEARD)).await? {
        heard.entry(decode::run_key(row)?).or_default().extend(heard_of(row)?);
    }
    let run = |(key, row): (RunKey, &PgRow)| {
        let heard = heard.get(&key).map(Vec::as_slice).unwrap_or_default();
        let run = run_seats::decode_run(row.try_get("body")?, heard).map_err(PostgresFailure::from_store)?;
        Ok(StoredRun {
            version: row.try_get("version")?,
            position: row.try_get("position")?,
            updated_at: decode::time(row, "updated_at")?,
            key,
            run,
        })
    };
    keys.into_iter().zip(rows).map(run).collect()
}

fn heard_of(row: &PgRow) -> PostgresResult<Option<StoredHeartbeat>> {
    let (Some(token), Some(at)) = (row.try_get("token")?, decode::time_option(row, "heard_at")?) else {
        return Ok(None);
    };
    let seat: i64 = row.try_get("seat")?;
    let seat = u16::try_from(seat).map_err(|error| decode::undecodable("seat", &seat.to_string(), error))?;
    Ok(Some(StoredHeartbeat {
        seat,
        token: SeatToken(token),
        at,
        progress: decode::json_option(row, "progress")?,
    }))
}

/// Locks the existing runs and their seats, each in the order of their keys.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    keys: &BTreeSet<&RunKey>,
) -> PostgresResult<BTreeMap<RunKey, PresentRun>> {
    const LOCK_RUNS: &str = "
SELECT r.*
FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS u(tenant, run_id)
      ORDER BY u.tenant COLLATE \"C\", u.run_id COLLATE \"C\") k
CROSS JOIN LATERAL (
    SELECT r.tenant, r.run_id, r.version FROM runs r
    WHERE r.tenant = k.tenant AND r.run_id = k.run_id
    FOR NO KEY UPDATE) r";
    const LOCK_SEATS: &str = "
SELECT s.*
FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS u(tenant, run_id)
      ORDER BY u.tenant COLLATE \"C\", u.run_id COLLATE \"C\") k
CROSS JOIN LATERAL (
    SELECT s.tenant, s.run_id, s.seat, s.token, s.heard_at, s.progress FROM run_seats s
    WHERE s.tenant = k.tenant AND s.run_id = k.run_id
    ORDER BY s.seat
    FOR NO KEY UPDATE) s";
    let columns: RunColumns<'_> = keys.iter().copied().collect();
    let mut present = BTreeMap::new();
    for row in &columns.bound(LOCK_RUNS).fetch_all(&mut *connection).await? {
        let there = PresentRun { version: row.try_get("version")?, heard: Vec::new() };
        present.insert(decode::run_key(row)?, there);
    }
    if present.is_empty() {
        return Ok(present);
    }
    let locked: Vec<RunKey> = present.keys().cloned().collect();
    let columns: RunColumns<'_> = locked.iter().collect();
    for row in &columns.bound(LOCK_SEATS).fetch_all(connection).await? {
        if let (Some(there), Some(heard)) = (present.get_mut(&decode::run_key(row)?), heard_of(row)?) {
            there.heard.push(heard);
        }
    }
    Ok(present)
}
