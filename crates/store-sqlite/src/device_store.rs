//! Devices and their heartbeats.

use millstream_devices::claim::{DeviceCandidate, DeviceReport};
use millstream_model::id::{DeviceId, DeviceKey, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::device_store::DeviceStore;
use rusqlite::params;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl DeviceStore for SqliteStore {
    async fn record_device_heartbeats(
        &self,
        beats: &[(TenantId, DeviceReport)],
        now: Timestamp,
    ) -> StoreResult<()> {
        const BEAT: &str = "
            INSERT INTO devices (tenant, device_id, capabilities, capability, capacity, load, quality, battery,
                                 on_battery, coordinates, seen_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
            ON CONFLICT (tenant, device_id) DO UPDATE SET
                capabilities = excluded.capabilities, capability = excluded.capability,
                capacity = excluded.capacity, load = excluded.load, quality = excluded.quality,
                battery = excluded.battery, on_battery = excluded.on_battery,
                coordinates = excluded.coordinates, seen_at = excluded.seen_at";
        if beats.is_empty() {
            return Ok(());
        }
        let beats = beats.to_vec();
        self.write_transaction(move |connection| {
            let mut beat = connection.prepare_cached(BEAT)?;
            for (tenant, device) in &beats {
                beat.execute(params![
                    tenant.as_str(),
                    device.id.as_str(),
                    RawJson::from_value(&device.capabilities).as_str(),
                    device.capability,
                    device.capacity,
                    device.load,
                    device.quality,
                    device.battery,
                    device.on_battery,
                    device.coordinates,
                    now.as_millis(),
                ])?;
            }
            Ok(())
        })
        .await
    }

    async fn read_roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> StoreResult<Vec<DeviceCandidate>> {
        const ROSTER: &str = "
            SELECT d.*, (SELECT count(*) FROM run_seats AS s
                         WHERE s.tenant = d.tenant AND s.device = d.device_id) AS open
            FROM devices AS d
            WHERE d.tenant = ?1 AND d.device_id > ?2
            ORDER BY d.device_id LIMIT ?3";
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(ROSTER)?;
            let after = after.as_ref().map_or("", DeviceId::as_str);
            let mut rows = read.query((tenant.as_str(), after, param::limit(limit)))?;
            let mut roster = Vec::new();
            while let Some(row) = rows.next()? {
                roster.push(decode_candidate(SqliteFields(row))?);
            }
            Ok(roster)
        })
        .await
    }

    async fn find_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<Option<DeviceCandidate>>> {
        const DEVICE: &str = "
            SELECT d.*, (SELECT count(*) FROM run_seats AS s
                         WHERE s.tenant = d.tenant AND s.device = d.device_id) AS open
            FROM devices AS d
            WHERE d.tenant = ?1 AND d.device_id = ?2";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(DEVICE)?;
            keys.iter()
                .map(|key| {
                    let mut rows = read.query((key.tenant.as_str(), key.device.as_str()))?;
                    rows.next()?.map(|row| decode_candidate(SqliteFields(row))).transpose()
                })
                .collect()
        })
        .await
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> StoreResult<Vec<bool>> {
        const PAUSE: &str = "UPDATE devices SET paused = ?3 WHERE tenant = ?1 AND device_id = ?2";
        let (keys, paused) = (keys.to_vec(), pause == PauseState::Paused);
        self.write_transaction(move |connection| {
            let mut set = connection.prepare_cached(PAUSE)?;
            let mut met =
                |key: &DeviceKey| Ok(set.execute((key.tenant.as_str(), key.device.as_str(), paused))? > 0);
            keys.iter().map(&mut met).collect()
        })
        .await
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<bool>> {
        const REMOVE: &str = "DELETE FROM devices WHERE tenant = ?1 AND device_id = ?2";
        let keys = keys.to_vec();
        self.write_transaction(move |connection| {
            let mut remove = connection.prepare_cached(REMOVE)?;
            let mut met =
                |key: &DeviceKey| Ok(remove.execute((key.tenant.as_str(), key.device.as_str()))? > 0);
            keys.iter().map(&mut met).collect()
        })
        .await
    }
}

fn decode_candidate(row: SqliteFields<'_>) -> SqliteResult<DeviceCandidate> {
    let capacity = row.opt_int("capacity")?.map(|_| row.number("capacity")).transpose()?;
    let device = DeviceReport {
        id: row.id("device_id")?,
        capabilities: row.json("capabilities")?,
        capability: row.number("capability")?,
        capacity,
        load: row.real("load")?,
        quality: row.real("quality")?,
        battery: row.opt_int("battery")?.and_then(|percent| u8::try_from(percent).ok()),
        on_battery: row.flag("on_battery")?,
        coordinates: row.flag("coordinates")?,
        paused: row.flag("paused")?,
        seen_at: row.time("seen_at")?,
    };
    Ok(DeviceCandidate { device, open: row.number("open")? })
}
