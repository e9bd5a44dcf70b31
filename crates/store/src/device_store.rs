//! Devices that take work: what they say of themselves, and how much they have been given.

use millstream_core::claim::{Candidate, Device};
use millstream_core::id::{DeviceId, DeviceKey, TenantId};
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait DeviceStore: Send + Sync {
    /// Registers devices, or hears from them again; the last word counts. `seen_at` becomes `now`. Whether a device
    /// is paused is a person's word: a new one is not, one that is known stays as it is.
    async fn beat_devices(&self, beats: &[(TenantId, Device)], now: Timestamp) -> Result<()>;

    /// Devices of a tenant in the order of their ids, after `after`, each with the number of seats that it has or is
    /// asked about.
    async fn roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<Candidate>>;

    /// In the order asked; `None` where there is no such device.
    async fn devices(&self, keys: &[DeviceKey]) -> Result<Vec<Option<Candidate>>>;

    /// Takes devices out of the choice, or back into it; `false` where there is no such device.
    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> Result<Vec<bool>>;

    /// Forgets devices; `false` where there is none. What they have of runs stays until somebody takes it from
    /// them (`device_gone`).
    async fn remove_devices(&self, keys: &[DeviceKey]) -> Result<Vec<bool>>;
}
