//! Devices, in memory.

use millstream_core::claim::{Candidate, Device};
use millstream_core::id::{DeviceId, DeviceKey, TenantId};
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;

use super::Memory;
use super::tables::Tables;
use crate::Result;
use crate::device_store::DeviceStore;

#[async_trait::async_trait]
impl DeviceStore for Memory {
    async fn beat_devices(&self, beats: &[(TenantId, Device)], now: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        for (tenant, device) in beats {
            let key = DeviceKey { tenant: tenant.clone(), device: device.id.clone() };
            let paused = tables.devices.get(&key).is_some_and(|known| known.paused);
            tables.devices.insert(key, Device { paused, seen_at: now, ..device.clone() });
        }
        Ok(())
    }

    async fn roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        let tables = self.tables();
        let is_meant =
            |key: &DeviceKey| key.tenant == *tenant && after.is_none_or(|after| key.device > *after);
        let devices = tables.devices.iter().filter(|(key, _)| is_meant(key)).take(limit);
        Ok(devices.map(|(key, device)| candidate(&tables, key, device)).collect())
    }

    async fn devices(&self, keys: &[DeviceKey]) -> Result<Vec<Option<Candidate>>> {
        let tables = self.tables();
        let found = |key| tables.devices.get(key).map(|device| candidate(&tables, key, device));
        Ok(keys.iter().map(found).collect())
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> Result<Vec<bool>> {
        let mut tables = self.tables();
        let mut set = |key: &DeviceKey| match tables.devices.get_mut(key) {
            Some(device) => {
                device.paused = pause == PauseState::Paused;
                true
            }
            None => false,
        };
        Ok(keys.iter().map(&mut set).collect())
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> Result<Vec<bool>> {
        let mut tables = self.tables();
        Ok(keys.iter().map(|key| tables.devices.remove(key).is_some()).collect())
    }
}

fn candidate(tables: &Tables, key: &DeviceKey, device: &Device) -> Candidate {
    let runs = tables.runs.iter().filter(|(run, _)| run.tenant == key.tenant);
    let seats = runs.flat_map(|(_, row)| &row.run.seats);
    let held = seats.filter(|seat| seat.held().is_some_and(|held| held.device == key.device));
    Candidate { device: device.clone(), open: u32::try_from(held.count()).unwrap_or(u32::MAX) }
}
