//! A device leaves: its registration is removed, and its seats are reassigned.

use std::collections::BTreeSet;

use millstream_devices::claim::RunInput;
use millstream_model::id::{DeviceKey, RunKey};
use millstream_store::run_service::{DeviceRunCommand, DeviceRunCommandKind, RunOperation};

use super::DeviceDeps;
use super::batcher::SEATS;
use crate::refusal::RequestRefusal;

/// The registration is removed first, so that the device gets no new assignments. The monitor reassigns any
/// seat that is left, because the device sends no more heartbeats.
pub(crate) async fn remove_device(deps: &DeviceDeps, key: &DeviceKey) -> Result<(), RequestRefusal> {
    deps.devices.remove_devices(std::slice::from_ref(key)).await?;
    deps.fleet.rosters.invalidate_tenant(&key.tenant);
    let want =
        DeviceRunCommandKind::Ask(RunOperation::Input(RunInput::DeviceGone { device: key.device.clone() }));
    let mut done: BTreeSet<RunKey> = BTreeSet::new();
    loop {
        let seats = deps.fleet.seats_of(key.clone()).await?;
        let (count, before) = (seats.len(), done.len());
        let runs = seats.into_iter().map(|seat| seat.run).filter(|run| done.insert(run.clone()));
        let orders = runs.map(|key| DeviceRunCommand { key, want: want.clone(), by: None }).collect();
        // A refused command means that the seat was released or the run has ended in the meantime.
        deps.fleet
            .apply_commands(orders)
            .await?
            .into_iter()
            .collect::<millstream_store::StoreResult<Vec<_>>>()?;
        if count < SEATS || done.len() == before {
            return Ok(());
        }
    }
}
