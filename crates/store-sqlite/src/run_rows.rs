//! The rows of runs, their seats and their logs, one function per statement.

use std::collections::{BTreeMap, BTreeSet};

use millstream_devices::claim::{RunLogEntry, SeatToken};
use millstream_model::id::RunKey;
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::run_commit::{PresentRun, ResultingRun};
use millstream_store::run_seats::{self, SeatRow, StoredHeartbeat};
use millstream_store::run_store::StoredRun;
use rusqlite::{Connection, Row, params};

use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::param;

pub(crate) fn read_run(connection: &Connection, key: &RunKey) -> SqliteResult<Option<StoredRun>> {
    const READ_RUN: &str = "SELECT * FROM runs WHERE tenant = ?1 AND run_id = ?2";
    let mut read = connection.prepare_cached(READ_RUN)?;
    let mut rows = read.query((key.tenant.as_str(), key.run.as_str()))?;
    rows.next()?.map(|row| stored_run(connection, row)).transpose()
}

/// The run of a row, with the heartbeats of its devices since.
pub(crate) fn stored_run(connection: &Connection, row: &Row<'_>) -> SqliteResult<StoredRun> {
    let row = SqliteFields(row);
    let key = row.run_key()?;
    let heard = read_heard(connection, &key)?;
    Ok(StoredRun {
        version: row.int("version")?,
        position: row.int("position")?,
        updated_at: row.time("updated_at")?,
        run: run_seats::decode_run(row.text("body")?, &heard)?,
        key,
    })
}

fn read_heard(connection: &Connection, key: &RunKey) -> SqliteResult<Vec<StoredHeartbeat>> {
    const READ_HEARD: &str = "
        SELECT seat, token, heard_at, progress FROM run_seats
        WHERE tenant = ?1 AND run_id = ?2 AND heard_at IS NOT NULL AND token IS NOT NULL";
    let mut read = connection.prepare_cached(READ_HEARD)?;
    let mut rows = read.query((key.tenant.as_str(), key.run.as_str()))?;
    let mut heard = Vec::new();
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        heard.push(StoredHeartbeat {
            seat: u16::try_from(row.int(0)?).map_err(corrupt_row)?,
            token: SeatToken(row.int(1)?),
            at: row.time(2)?,
            progress: row.opt_raw(3)?,
        });
    }
    Ok(heard)
}

/// The existing runs.
pub(crate) fn read_present(
    connection: &Connection,
    keys: &BTreeSet<&RunKey>,
) -> SqliteResult<BTreeMap<RunKey, PresentRun>> {
    const READ_VERSION: &str = "SELECT version FROM runs WHERE tenant = ?1 AND run_id = ?2";
    let mut read = connection.prepare_cached(READ_VERSION)?;
    let mut present = BTreeMap::new();
    for key in keys {
        let mut rows = read.query((key.tenant.as_str(), key.run.as_str()))?;
        if let Some(row) = rows.next()? {
            let version = SqliteFields(row).int(0)?;
            present.insert((*key).clone(), PresentRun { version, heard: read_heard(connection, key)? });
        }
    }
    Ok(present)
}

pub(crate) fn write_run(
    connection: &Connection,
    key: &RunKey,
    left: &ResultingRun,
    now: Timestamp,
) -> SqliteResult<()> {
    const INSERT_RUN: &str = "
        INSERT INTO runs (tenant, run_id, status, version, body, updated_at, ended_at, kind, execution_id)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    const UPDATE_RUN: &str = "
        UPDATE runs SET status = ?3, version = ?4, body = ?5, updated_at = ?6, ended_at = ?7
        WHERE tenant = ?1 AND run_id = ?2";
    let run = &left.run;
    let (tenant, id, status) = (key.tenant.as_str(), key.run.as_str(), run.status());
    let (body, ended_at) = (RawJson::from_value(run), run.ended_at().map(Timestamp::as_millis));
    if left.is_new {
        let execution = run.waiting.as_ref().map(|waiting| waiting.key.execution.execution.as_str());
        connection.prepare_cached(INSERT_RUN)?.execute((
            tenant,
            id,
            status.as_str(),
            left.version,
            body.as_str(),
            now.as_millis(),
            ended_at,
            run.kind.as_str(),
            execution,
        ))?;
    } else {
        connection.prepare_cached(UPDATE_RUN)?.execute((
            tenant,
            id,
            status.as_str(),
            left.version,
            body.as_str(),
            now.as_millis(),
            ended_at,
        ))?;
    }
    run_seats::seat_rows(run).iter().try_for_each(|row| write_seat(connection, key, row))
}

fn write_seat(connection: &Connection, key: &RunKey, row: &SeatRow) -> SqliteResult<()> {
    const WRITE_SEAT: &str = "
        INSERT INTO run_seats (tenant, run_id, seat, status, device, token, priority, assigned_at, due_at,
                               heard_at, silence_ms, begin_by, paused, progress)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
        ON CONFLICT (tenant, run_id, seat) DO UPDATE SET
            status = excluded.status, device = excluded.device, token = excluded.token,
            priority = excluded.priority, assigned_at = excluded.assigned_at, due_at = excluded.due_at,
            heard_at = excluded.heard_at, silence_ms = excluded.silence_ms, begin_by = excluded.begin_by,
            paused = excluded.paused, progress = excluded.progress";
    connection.prepare_cached(WRITE_SEAT)?.execute(params![
        key.tenant.as_str(),
        key.run.as_str(),
        row.seat,
        row.status.as_str(),
        row.device.as_ref().map(|device| device.as_str()),
        row.token.map(|token| token.0),
        row.priority,
        row.assigned_at.map(Timestamp::as_millis),
        row.due_at.map(Timestamp::as_millis),
        row.heard_at.map(Timestamp::as_millis),
        param::millis(row.silence),
        row.begin_by.map(Timestamp::as_millis),
        row.pause == PauseState::Paused,
        row.progress.as_ref().map(RawJson::as_str),
    ])?;
    Ok(())
}

pub(crate) fn append_log(connection: &Connection, key: &RunKey, log: &[RunLogEntry]) -> SqliteResult<()> {
    const APPEND_LOG: &str = "INSERT INTO run_log (tenant, run_id, body) VALUES (?1, ?2, ?3)";
    let mut append = connection.prepare_cached(APPEND_LOG)?;
    for entry in log {
        append.execute((key.tenant.as_str(), key.run.as_str(), RawJson::from_value(entry).as_str()))?;
    }
    Ok(())
}
