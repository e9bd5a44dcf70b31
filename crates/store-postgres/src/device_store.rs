//! Devices and their heartbeats.

use std::collections::HashMap;

use async_trait::async_trait;
use millstream_devices::claim::{DeviceCandidate, DeviceReport};
use millstream_model::id::{DeviceId, DeviceKey, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::device_store::DeviceStore;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgPool, Postgres, Row};

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl DeviceStore for PostgresStore {
    async fn record_device_heartbeats(
        &self,
        beats: &[(TenantId, DeviceReport)],
        now: Timestamp,
    ) -> StoreResult<()> {
        if beats.is_empty() {
            return Ok(());
        }
        self.with_retries(|| write_heartbeats(&self.leases, beats, now)).await
    }

    async fn read_roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> StoreResult<Vec<DeviceCandidate>> {
        const READ: &str = "
SELECT d.*, (SELECT count(*) FROM run_seats s WHERE s.tenant || '' = d.tenant AND s.device = d.device_id) AS open
FROM devices d
WHERE d.tenant = $1 AND d.device_id > $2
ORDER BY d.device_id LIMIT $3";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(tenant.as_str())
                .bind(after.map_or("", DeviceId::as_str))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode_candidate).collect()
        })
        .await
    }

    async fn find_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<Option<DeviceCandidate>>> {
        const READ: &str = "
SELECT d.*, (SELECT count(*) FROM run_seats s WHERE s.tenant || '' = d.tenant AND s.device = d.device_id) AS open
FROM unnest($1::text[], $2::text[]) AS k(tenant, device_id)
CROSS JOIN LATERAL (
    SELECT d.* FROM devices d WHERE d.tenant = k.tenant AND d.device_id = k.device_id OFFSET 0) d";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let rows = self.warm.fetch_rows(DeviceColumns::of(keys).bound(READ)).await?;
            let found = rows
                .iter()
                .map(|row| Ok((device_key(row)?, decode_candidate(row)?)))
                .collect::<PostgresResult<HashMap<_, _>>>()?;
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        })
        .await
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> StoreResult<Vec<bool>> {
        const PAUSE: &str = "
UPDATE devices d SET paused = $3
FROM unnest($1::text[], $2::text[]) AS k(tenant, device_id)
WHERE d.tenant = k.tenant AND d.device_id = k.device_id
RETURNING d.tenant, d.device_id";
        let paused = pause == PauseState::Paused;
        self.with_retries(|| async {
            let columns = DeviceColumns::of(keys);
            existing_keys(keys, &columns.bound(PAUSE).bind(paused).fetch_all(&self.pool).await?)
        })
        .await
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<bool>> {
        const REMOVE: &str = "
DELETE FROM devices d USING unnest($1::text[], $2::text[]) AS k(tenant, device_id)
WHERE d.tenant = k.tenant AND d.device_id = k.device_id
RETURNING d.tenant, d.device_id";
        self.with_retries(|| async {
            let columns = DeviceColumns::of(keys);
            existing_keys(keys, &columns.bound(REMOVE).fetch_all(&self.pool).await?)
        })
        .await
    }
}

/// Devices as two arrays.
#[derive(Debug)]
pub(crate) struct DeviceColumns<'a> {
    tenants: Vec<&'a str>,
    devices: Vec<&'a str>,
}

impl<'a> DeviceColumns<'a> {
    pub(crate) fn of(keys: &'a [DeviceKey]) -> Self {
        let tenants = keys.iter().map(|key| key.tenant.as_str()).collect();
        Self { tenants, devices: keys.iter().map(|key| key.device.as_str()).collect() }
    }

    /// As `$1` and `$2`.
    pub(crate) fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(&self.tenants).bind(&self.devices)
    }
}

fn device_key(row: &PgRow) -> PostgresResult<DeviceKey> {
    Ok(DeviceKey { tenant: decode::parsed(row, "tenant")?, device: decode::parsed(row, "device_id")? })
}

/// Which of the keys have a row.
fn existing_keys(keys: &[DeviceKey], rows: &[PgRow]) -> PostgresResult<Vec<bool>> {
    let met = rows.iter().map(device_key).collect::<PostgresResult<Vec<_>>>()?;
    Ok(keys.iter().map(|key| met.contains(key)).collect())
}

/// In the order of their keys. The last report of a batch counts: one statement must not update a row twice.
async fn write_heartbeats(
    pool: &PgPool,
    beats: &[(TenantId, DeviceReport)],
    now: Timestamp,
) -> PostgresResult<()> {
    const BEAT: &str = "
INSERT INTO devices (tenant, device_id, capabilities, capability, capacity, load, quality, battery, on_battery,
                     coordinates, seen_at)
SELECT DISTINCT ON (k.tenant COLLATE \"C\", k.device_id COLLATE \"C\")
       k.tenant, k.device_id, k.capabilities, k.capability, k.capacity, k.load, k.quality, k.battery, k.on_battery,
       k.coordinates, $11
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::double precision[],
            $7::double precision[], $8::bigint[], $9::boolean[], $10::boolean[])
    WITH ORDINALITY AS k(tenant, device_id, capabilities, capability, capacity, load, quality, battery, on_battery,
                         coordinates, ord)
ORDER BY k.tenant COLLATE \"C\", k.device_id COLLATE \"C\", k.ord DESC
ON CONFLICT (tenant, device_id) DO UPDATE SET
    capabilities = excluded.capabilities, capability = excluded.capability, capacity = excluded.capacity,
    load = excluded.load, quality = excluded.quality, battery = excluded.battery,
    on_battery = excluded.on_battery, coordinates = excluded.coordinates, seen_at = excluded.seen_at";
    let each = || beats.iter().map(|(_, device)| device);
    let capabilities = |device: &DeviceReport| RawJson::from_value(&device.capabilities).as_str().to_owned();
    sqlx::query(BEAT)
        .bind(beats.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(each().map(|device| device.id.as_str()).collect::<Vec<_>>())
        .bind(each().map(capabilities).collect::<Vec<_>>())
        .bind(each().map(|device| i64::from(device.capability)).collect::<Vec<_>>())
        .bind(each().map(|device| device.capacity.map(i64::from)).collect::<Vec<_>>())
        .bind(each().map(|device| device.load).collect::<Vec<_>>())
        .bind(each().map(|device| device.quality).collect::<Vec<_>>())
        .bind(each().map(|device| device.battery.map(i64::from)).collect::<Vec<_>>())
        .bind(each().map(|device| device.on_battery).collect::<Vec<_>>())
        .bind(each().map(|device| device.coordinates).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(pool)
        .await?;
    Ok(())
}

fn decode_candidate(row: &PgRow) -> PostgresResult<DeviceCandidate> {
    let battery: Option<i64> = row.try_get("battery")?;
    let device = DeviceReport {
        id: decode::parsed(row, "device_id")?,
        capabilities: decode::list(row, "capabilities")?,
        capability: decode::number(row, "capability")?,
        capacity: decode::number_option(row, "capacity")?,
        load: row.try_get("load")?,
        quality: row.try_get("quality")?,
        battery: battery.and_then(|percent| u8::try_from(percent).ok()),
        on_battery: row.try_get("on_battery")?,
        coordinates: row.try_get("coordinates")?,
        paused: row.try_get("paused")?,
        seen_at: decode::time(row, "seen_at")?,
    };
    Ok(DeviceCandidate { device, open: decode::number(row, "open")? })
}
