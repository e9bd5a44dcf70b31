//! Views of runs. Read-only.

use millstream_devices::claim::{OccupiedSeat, SeatStatus, SeatToken};
use millstream_model::id::{DeviceKey, ExecutionId, Name, RunKey, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::run_store::{FleetCounts, RunEntry, RunFilter, RunViews, StoredRun};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::param;
use crate::run_rows::stored_run;

#[async_trait::async_trait]
impl RunViews for SqliteStore {
    async fn list_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<StoredRun>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(list_statement(&filter))?;
            let mut rows = list.query((
                tenant.as_str(),
                after.unwrap_or(i64::MAX),
                param::limit(limit),
                filter.status.map(SeatStatus::as_str),
                filter.kind.as_ref().map(Name::as_str),
                filter.execution.as_ref().map(ExecutionId::as_str),
            ))?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                runs.push(stored_run(connection, row)?);
            }
            Ok(runs)
        })
        .await
    }

    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> StoreResult<Vec<Vec<OccupiedSeat>>> {
        if devices.is_empty() {
            return Ok(Vec::new());
        }
        let devices = devices.to_vec();
        self.read_transaction(move |connection| {
            devices.iter().map(|device| read_seats(connection, device, limit)).collect()
        })
        .await
    }

    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> StoreResult<Vec<RunEntry>> {
        const READ_LOG: &str = "
            SELECT position, body FROM run_log
            WHERE tenant = ?1 AND run_id = ?2 AND position > ?3
            ORDER BY position LIMIT ?4";
        let run = run.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(READ_LOG)?;
            let place = (run.tenant.as_str(), run.run.as_str(), after, param::limit(limit));
            let mut rows = read.query(place)?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                entries.push(RunEntry { position: row.int(0)?, entry: row.json(1)? });
            }
            Ok(entries)
        })
        .await
    }

    async fn run_log_end(&self, run: &RunKey, limit: usize) -> StoreResult<Vec<RunEntry>> {
        const READ_END: &str = "
            SELECT position, body FROM run_log
            WHERE tenant = ?1 AND run_id = ?2
            ORDER BY position DESC LIMIT ?3";
        let run = run.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(READ_END)?;
            let mut rows = read.query((run.tenant.as_str(), run.run.as_str(), param::limit(limit)))?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                entries.push(RunEntry { position: row.int(0)?, entry: row.json(1)? });
            }
            entries.reverse();
            Ok(entries)
        })
        .await
    }

    async fn count_fleet(&self, since: Timestamp) -> StoreResult<FleetCounts> {
        const DEVICES: &str = "SELECT count(*), count(*) FILTER (WHERE seen_at >= ?1) FROM devices";
        const SEATS: &str = "SELECT status, count(*) FROM run_seats WHERE due_at IS NOT NULL GROUP BY status";
        self.read_transaction(move |connection| {
            let mut counts = FleetCounts::default();
            let mut read = connection.prepare_cached(DEVICES)?;
            let mut rows = read.query([since.as_millis()])?;
            if let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                (counts.devices, counts.heard) = (row.count(0)?, row.count(1)?);
            }
            let mut read = connection.prepare_cached(SEATS)?;
            let mut rows = read.query(())?;
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                counts.seats.insert(row.word(0, SeatStatus::parse)?, row.count(1)?);
            }
            Ok(counts)
        })
        .await
    }
}

/// Each statement has an index for its first conditions; the rest are filters.
fn list_statement(filter: &RunFilter) -> &'static str {
    match (&filter.execution, filter.status, &filter.kind) {
        (Some(_), _, _) => {
            "SELECT * FROM runs WHERE tenant = ?1 AND execution_id = ?6 AND position < ?2
                AND (?4 IS NULL OR status = ?4) AND (?5 IS NULL OR kind = ?5)
            ORDER BY position DESC LIMIT ?3"
        }
        (None, Some(_), _) => {
            "SELECT * FROM runs WHERE tenant = ?1 AND status = ?4 AND position < ?2
                AND (?5 IS NULL OR kind = ?5) AND ?6 IS NULL
            ORDER BY position DESC LIMIT ?3"
        }
        (None, None, Some(_)) => {
            "SELECT * FROM runs WHERE tenant = ?1 AND kind = ?5 AND position < ?2
                AND ?4 IS NULL AND ?6 IS NULL
            ORDER BY position DESC LIMIT ?3"
        }
        (None, None, None) => {
            "SELECT * FROM runs WHERE tenant = ?1 AND position < ?2
                AND ?4 IS NULL AND ?5 IS NULL AND ?6 IS NULL
            ORDER BY position DESC LIMIT ?3"
        }
    }
}

fn read_seats(connection: &Connection, device: &DeviceKey, limit: usize) -> SqliteResult<Vec<OccupiedSeat>> {
    const READ_SEATS: &str = "
        SELECT * FROM run_seats WHERE tenant = ?1 AND device = ?2
        ORDER BY priority DESC, assigned_at, run_id LIMIT ?3";
    let mut read = connection.prepare_cached(READ_SEATS)?;
    let mut rows = read.query((device.tenant.as_str(), device.device.as_str(), param::limit(limit)))?;
    let mut seats = Vec::new();
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        seats.push(OccupiedSeat {
            run: row.run_key()?,
            seat: u16::try_from(row.int("seat")?).map_err(corrupt_row)?,
            device: row.id("device")?,
            token: SeatToken(row.int("token")?),
            status: row.word("status", SeatStatus::parse)?,
            priority: row.small("priority")?,
            assigned_at: row.time("assigned_at")?,
        });
    }
    Ok(seats)
}
