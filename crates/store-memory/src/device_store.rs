//! Devices, in memory.

use millstream_devices::claim::{DeviceCandidate, DeviceReport};
use millstream_model::id::{DeviceId, DeviceKey, TenantId};
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::device_store::DeviceStore;

use crate::MemoryStore;
use crate::tables::MemoryTables;

#[async_trait::async_trait]
impl DeviceStore for MemoryStore {
    async fn record_device_heartbeats(
        &self,
        beats: &[(TenantId, DeviceReport)],
        now: Timestamp,
    ) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for (tenant, device) in beats {
            let key = DeviceKey { tenant: tenant.clone(), device: device.id.clone() };
            let paused = tables.devices.get(&key).is_some_and(|known| known.paused);
            tables.devices.insert(key, DeviceReport { paused, seen_at: now, ..device.clone() });
        }
        Ok(())
    }

    async fn read_roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> StoreResult<Vec<DeviceCandidate>> {
        let tables = self.lock_tables();
        let is_meant =
            |key: &DeviceKey| key.tenant == *tenant && after.is_none_or(|after| key.device > *after);
        let devices = tables.devices.iter().filter(|(key, _)| is_meant(key)).take(limit);
        Ok(devices.map(|(key, device)| candidate(&tables, key, device)).collect())
    }

    async fn find_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<Option<DeviceCandidate>>> {
        let tables = self.lock_tables();
        let found = |key| tables.devices.get(key).map(|device| candidate(&tables, key, device));
        Ok(keys.iter().map(found).collect())
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> StoreResult<Vec<bool>> {
        let mut tables = self.lock_tables();
        let mut set = |key: &DeviceKey| match tables.devices.get_mut(key) {
            Some(device) => {
                device.paused = pause == PauseState::Paused;
                true
            }
            None => false,
        };
        Ok(keys.iter().map(&mut set).collect())
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<bool>> {
        let mut tables = self.lock_tables();
        Ok(keys.iter().map(|key| tables.devices.remove(key).is_some()).collect())
    }
}

fn candidate(tables: &MemoryTables, key: &DeviceKey, device: &DeviceReport) -> DeviceCandidate {
    let runs = tables.runs.iter().filter(|(run, _)| run.tenant == key.tenant);
    let seats = runs.flat_map(|(_, row)| &row.run.seats);
    let held = seats.filter(|seat| seat.current_holding().is_some_and(|held| held.device == key.device));
    DeviceCandidate { device: device.clone(), open: u32::try_from(held.count()).unwrap_or(u32::MAX) }
}
