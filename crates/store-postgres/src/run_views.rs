//! Views of runs. Read-only.

use std::collections::HashMap;

use async_trait::async_trait;
use millstream_devices::claim::{OccupiedSeat, SeatToken};
use millstream_model::id::{DeviceKey, RunKey, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::run_store::{FleetCounts, RunEntry, RunFilter, RunViews, StoredRun};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connect::PostgresStore;
use crate::connection_cache::WarmConnections;
use crate::device_store::DeviceColumns;
use crate::errors::PostgresResult;
use crate::{decode, run_rows};

#[async_trait]
impl RunViews for PostgresStore {
    async fn list_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<StoredRun>> {
        self.without_retries(read_run_list(&self.warm, tenant, filter, after, limit)).await
    }

    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> StoreResult<Vec<Vec<OccupiedSeat>>> {
        const READ: &str = "
SELECT s.*
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS u(tenant, device)) k
CROSS JOIN LATERAL (
    SELECT s.tenant, s.run_id, s.seat, s.device, s.token, s.status, s.priority, s.assigned_at FROM run_seats s
    WHERE s.tenant || '' = k.tenant AND s.device = k.device
    ORDER BY s.priority DESC, s.assigned_at, s.run_id
    LIMIT $3) s
ORDER BY s.priority DESC, s.assigned_at, s.run_id";
        if devices.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let columns = DeviceColumns::of(devices);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = columns.bound(READ).bind(limit).fetch_all(&self.pool).await?;
            let mut held: HashMap<DeviceKey, Vec<OccupiedSeat>> = HashMap::new();
            for row in &rows {
                let seat = decode_occupied(row)?;
                let key = DeviceKey { tenant: seat.run.tenant.clone(), device: seat.device.clone() };
                held.entry(key).or_default().push(seat);
            }
            Ok(devices.iter().map(|device| held.get(device).cloned().unwrap_or_default()).collect())
        })
        .await
    }

    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> StoreResult<Vec<RunEntry>> {
        const READ: &str = "
SELECT l.position, l.body FROM run_log l
WHERE l.tenant = $1 AND l.run_id = $2 AND l.position > $3
ORDER BY l.position LIMIT $4";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(run.tenant.as_str())
                .bind(run.run.as_str())
                .bind(after)
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode_entry).collect()
        })
        .await
    }

    async fn run_log_end(&self, run: &RunKey, limit: usize) -> StoreResult<Vec<RunEntry>> {
        const READ: &str = "
SELECT l.position, l.body FROM run_log l
WHERE l.tenant = $1 AND l.run_id = $2
ORDER BY l.position DESC LIMIT $3";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(run.tenant.as_str())
                .bind(run.run.as_str())
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().rev().map(decode_entry).collect()
        })
        .await
    }

    async fn count_fleet(&self, since: Timestamp) -> StoreResult<FleetCounts> {
        const DEVICES: &str = "
SELECT count(*) AS devices, count(*) FILTER (WHERE seen_at >= $1) AS heard FROM devices";
        const SEATS: &str = "
SELECT s.status, count(*) AS seats FROM run_seats s WHERE s.due_at IS NOT NULL GROUP BY s.status";
        self.without_retries(async {
            let devices = sqlx::query(DEVICES).bind(since.as_millis()).fetch_one(&self.pool).await?;
            let seats = sqlx::query(SEATS).fetch_all(&self.pool).await?;
            let by_status = |row: &PgRow| Ok((decode::parsed(row, "status")?, decode_count(row, "seats")?));
            Ok(FleetCounts {
                devices: decode_count(&devices, "devices")?,
                heard: decode_count(&devices, "heard")?,
                seats: seats.iter().map(by_status).collect::<PostgresResult<_>>()?,
            })
        })
        .await
    }
}

fn decode_count(row: &PgRow, column: &str) -> PostgresResult<u64> {
    Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
}

fn decode_entry(row: &PgRow) -> PostgresResult<RunEntry> {
    Ok(RunEntry { position: row.try_get("position")?, entry: decode::list(row, "body")? })
}

/// Each statement has an index for its first conditions; the rest are filters.
async fn read_run_list(
    warm: &WarmConnections,
    tenant: &TenantId,
    filter: &RunFilter,
    after: Option<i64>,
    limit: usize,
) -> PostgresResult<Vec<StoredRun>> {
    const OF_EXECUTION: &str = "
SELECT r.* FROM runs r
WHERE r.execution_id = $6 AND r.tenant = $1 AND r.position < $2
  AND ($4::text IS NULL OR r.status = $4) AND ($5::text IS NULL OR r.kind = $5)
ORDER BY r.position DESC LIMIT $3";
    const OF_STATUS: &str = "
SELECT r.* FROM runs r
WHERE r.tenant || '' = $1 AND r.status = $4 AND r.position < $2
  AND ($5::text IS NULL OR r.kind = $5) AND $6::text IS NULL
ORDER BY r.position DESC LIMIT $3";
    const OF_KIND: &str = "
SELECT r.* FROM runs r
WHERE r.tenant || '' = $1 AND r.kind = $5 AND r.position < $2 AND $4::text IS NULL AND $6::text IS NULL
ORDER BY r.position DESC LIMIT $3";
    const ALL: &str = "
SELECT r.* FROM runs r
WHERE r.tenant || '' = $1 AND r.position < $2 AND $4::text IS NULL AND $5::text IS NULL AND $6::text IS NULL
ORDER BY r.position DESC LIMIT $3";
    let sql = match (&filter.execution, filter.status, &filter.kind) {
        (Some(_), _, _) => OF_EXECUTION,
        (None, Some(_), _) => OF_STATUS,
        (None, None, Some(_)) => OF_KIND,
        (None, None, None) => ALL,
    };
    let query = sqlx::query(sql)
        .bind(tenant.as_str())
        .bind(after.unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(filter.status.map(|status| status.as_str()))
        .bind(filter.kind.as_ref().map(|kind| kind.as_str()))
        .bind(filter.execution.as_ref().map(|execution| execution.as_str()));
    let rows = warm.fetch_rows(query).await?;
    run_rows::assemble(warm, &rows).await
}

fn decode_occupied(row: &PgRow) -> PostgresResult<OccupiedSeat> {
    let (seat, priority): (i64, i64) = (row.try_get("seat")?, row.try_get("priority")?);
    let bad = |column: &str, number: i64| decode::undecodable(column, &number.to_string(), "out of range");
    Ok(OccupiedSeat {
        run: decode::run_key(row)?,
        seat: u16::try_from(seat).map_err(|_| bad("seat", seat))?,
        device: decode::parsed(row, "device")?,
        token: SeatToken(row.try_get("token")?),
        status: decode::parsed(row, "status")?,
        priority: i32::try_from(priority).map_err(|_| bad("priority", priority))?,
        assigned_at: decode::time(row, "assigned_at")?,
    })
}
