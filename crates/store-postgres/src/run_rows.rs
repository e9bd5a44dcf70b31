//! The rows of runs, their seats and their logs: one statement per table, all rows at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_core::claim::Token;
use millstream_core::id::RunKey;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::run_commit::{Left, Plan, Present};
use millstream_store::run_seats::{self, Heard, SeatRow};
use millstream_store::run_store::{RunWrite, StoredRun};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, PgPool, Postgres, Row};

use crate::action_rows::millis;
use crate::decode;
use crate::errors::{Attempt, Failure};

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

pub(crate) async fn load(pool: &PgPool, keys: &[RunKey]) -> Attempt<HashMap<RunKey, StoredRun>> {
    const READ: &str = "
SELECT r.*
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS u(tenant, run_id)) k
CROSS JOIN LATERAL (SELECT r.* FROM runs r WHERE r.tenant = k.tenant AND r.run_id = k.run_id OFFSET 0) r";
    let columns: RunColumns<'_> = keys.iter().collect();
    let rows = columns.bound(READ).fetch_all(pool).await?;
    let found = assemble(pool, &rows).await?;
    Ok(found.into_iter().map(|run| (run.key.clone(), run)).collect())
}

/// Runs of rows, with what was heard of their devices since.
pub(crate) async fn assemble(pool: &PgPool, rows: &[PgRow]) -> Attempt<Vec<StoredRun>> {
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
    let keys = rows.iter().map(decode::run_key).collect::<Attempt<Vec<_>>>()?;
    let columns: RunColumns<'_> = keys.iter().collect();
    let mut heard: HashMap<RunKey, Vec<Heard>> = HashMap::new();
    for row in &columns.bound(HEARD).fetch_all(pool).await? {
        heard.entry(decode::run_key(row)?).or_default().extend(heard_of(row)?);
    }
    let run = |(key, row): (RunKey, &PgRow)| {
        let heard = heard.get(&key).map(Vec::as_slice).unwrap_or_default();
        let run = run_seats::decode(row.try_get("body")?, heard).map_err(Failure::from_store)?;
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

fn heard_of(row: &PgRow) -> Attempt<Option<Heard>> {
    let (Some(token), Some(at)) = (row.try_get("token")?, decode::time_option(row, "heard_at")?) else {
        return Ok(None);
    };
    let seat: i64 = row.try_get("seat")?;
    let seat = u16::try_from(seat).map_err(|error| decode::undecodable("seat", &seat.to_string(), error))?;
    Ok(Some(Heard { seat, token: Token(token), at, progress: decode::json_option(row, "progress")? }))
}

/// Holds the runs that exist and their seats, each in the order of their keys.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    keys: &BTreeSet<&RunKey>,
) -> Attempt<BTreeMap<RunKey, Present>> {
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
        let there = Present { version: row.try_get("version")?, heard: Vec::new() };
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

pub(crate) async fn write(connection: &mut PgConnection, plan: &Plan<'_>, now: Timestamp) -> Attempt<()> {
    let (new, known): (Vec<_>, Vec<_>) =
        plan.runs.iter().map(|(key, left)| (*key, left)).partition(|(_, left)| left.is_new);
    insert_runs(connection, &new, now).await?;
    update_runs(connection, &known, now).await?;
    let seats: Vec<(&RunKey, SeatRow)> = plan
        .runs
        .iter()
        .flat_map(|(key, left)| run_seats::rows(&left.run).into_iter().map(|row| (*key, row)))
        .collect();
    write_seats(connection, &seats).await?;
    append_log(connection, &plan.writes).await
}

/// One that somebody else creates at the same moment is there when this is tried again.
async fn insert_runs(
    connection: &mut PgConnection,
    runs: &[(&RunKey, &Left)],
    now: Timestamp,
) -> Attempt<()> {
    const INSERT: &str = "
INSERT INTO runs (tenant, run_id, kind, status, version, body, ended_at, execution_id, updated_at)
SELECT k.*, $9 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[],
                           $8::text[])
    AS k(tenant, run_id, kind, status, version, body, ended_at, execution_id)
ON CONFLICT (run_id, tenant) DO NOTHING";
    if runs.is_empty() {
        return Ok(());
    }
    let execution = |left: &Left| {
        let waiting = left.run.waiting.as_ref()?;
        Some(waiting.key.execution.execution.as_str().to_owned())
    };
    let columns: RunColumns<'_> = runs.iter().map(|(key, _)| *key).collect();
    let inserted = columns
        .bound(INSERT)
        .bind(runs.iter().map(|(_, left)| left.run.kind.as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| left.run.status().as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| left.version).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| body(left)).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| ended_at(left)).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| execution(left)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    if usize::try_from(inserted.rows_affected()).is_ok_and(|inserted| inserted == runs.len()) {
        return Ok(());
    }
    Err(Failure::Unsettled("a run was created by somebody else at the same moment"))
}

async fn update_runs(
    connection: &mut PgConnection,
    runs: &[(&RunKey, &Left)],
    now: Timestamp,
) -> Attempt<()> {
    const UPDATE: &str = "
UPDATE runs r SET status = k.status, version = k.version, body = k.body, ended_at = k.ended_at, updated_at = $7
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
    AS k(tenant, run_id, status, version, body, ended_at)
WHERE r.tenant = k.tenant AND r.run_id = k.run_id";
    if runs.is_empty() {
        return Ok(());
    }
    let columns: RunColumns<'_> = runs.iter().map(|(key, _)| *key).collect();
    columns
        .bound(UPDATE)
        .bind(runs.iter().map(|(_, left)| left.run.status().as_str()).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| left.version).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| body(left)).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, left)| ended_at(left)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

fn body(left: &Left) -> String {
    RawJson::of(&left.run).as_str().to_owned()
}

fn ended_at(left: &Left) -> Option<i64> {
    left.run.ended_at().map(Timestamp::as_millis)
}

async fn write_seats(connection: &mut PgConnection, seats: &[(&RunKey, SeatRow)]) -> Attempt<()> {
    const WRITE: &str = "
INSERT INTO run_seats (tenant, run_id, seat, status, device, token, priority, assigned_at, due_at, heard_at,
                       silence_ms, begin_by, paused, progress)
SELECT k.* FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
                       $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::boolean[],
                       $14::text[])
    AS k(tenant, run_id, seat, status, device, token, priority, assigned_at, due_at, heard_at, silence_ms, begin_by,
         paused, progress)
ON CONFLICT (run_id, tenant, seat) DO UPDATE SET
    status = excluded.status, device = excluded.device, token = excluded.token, priority = excluded.priority,
    assigned_at = excluded.assigned_at, due_at = excluded.due_at, heard_at = excluded.heard_at,
    silence_ms = excluded.silence_ms, begin_by = excluded.begin_by, paused = excluded.paused,
    progress = excluded.progress";
    let columns: RunColumns<'_> = seats.iter().map(|(key, _)| *key).collect();
    let each = || seats.iter().map(|(_, row)| row);
    let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    columns
        .bound(WRITE)
        .bind(each().map(|row| i64::from(row.seat)).collect::<Vec<_>>())
        .bind(each().map(|row| row.status.as_str()).collect::<Vec<_>>())
        .bind(each().map(|row| row.device.as_ref().map(|device| device.as_str())).collect::<Vec<_>>())
        .bind(each().map(|row| row.token.map(|token| token.0)).collect::<Vec<_>>())
        .bind(each().map(|row| i64::from(row.priority)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.assigned_at)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.due_at)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.heard_at)).collect::<Vec<_>>())
        .bind(each().map(|row| millis(row.silence)).collect::<Vec<_>>())
        .bind(each().map(|row| time(row.begin_by)).collect::<Vec<_>>())
        .bind(each().map(|row| row.pause == millstream_core::status::PauseState::Paused).collect::<Vec<_>>())
        .bind(each().map(|row| row.progress.as_ref().map(RawJson::as_str)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

async fn append_log(connection: &mut PgConnection, writes: &[&RunWrite]) -> Attempt<()> {
    const APPEND: &str = "
INSERT INTO run_log (tenant, run_id, body)
SELECT k.tenant, k.run_id, k.body
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(tenant, run_id, body, ord)
ORDER BY k.ord";
    let entries: Vec<(&RunKey, String)> = writes
        .iter()
        .flat_map(|write| write.log.iter().map(|entry| (&write.key, RawJson::of(entry).as_str().to_owned())))
        .collect();
    if entries.is_empty() {
        return Ok(());
    }
    let columns: RunColumns<'_> = entries.iter().map(|(key, _)| *key).collect();
    let bodies: Vec<&str> = entries.iter().map(|(_, body)| body.as_str()).collect();
    columns.bound(APPEND).bind(&bodies).execute(connection).await?;
    Ok(())
}
