//! Devices: what they report about themselves, and how many seats they hold.

use millstream_devices::claim::{DeviceCandidate, DeviceReport};
use millstream_model::id::{DeviceId, DeviceKey, TenantId};
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait DeviceStore: Send + Sync {
    /// Registers devices, or refreshes them (a heartbeat); the last report counts. `seen_at` becomes `now`.
    /// Only [`pause_devices`](DeviceStore::pause_devices) changes the pause: a new device is active, a known
    /// one keeps its state.
    async fn record_device_heartbeats(
        &self,
        beats: &[(TenantId, DeviceReport)],
        now: Timestamp,
    ) -> StoreResult<()>;

    /// Devices of a tenant ordered by id, after `after`, each with the number of seats that it holds or is
    /// offered.
    async fn read_roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> StoreResult<Vec<DeviceCandidate>>;

    /// In the order asked; `None` where there is no such device.
    async fn find_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<Option<DeviceCandidate>>>;

    /// Pauses devices, so that they are not chosen, or resumes them; `false` where there is no such device.
    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> StoreResult<Vec<bool>>;

    /// Removes devices; `false` where there is none. Their seats in runs stay until a `device_gone` step
    /// takes them back.
    async fn remove_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<bool>>;
}
