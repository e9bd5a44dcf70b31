//! A device leaves: its registration is removed, and its seats are reassigned.

use std::collections::BTreeSet;

use millstream_core::claim::Input;
use millstream_core::id::{DeviceKey, RunKey};
use millstream_store::running::{Ask, Order, Want};

use super::fleet::SEATS;
use crate::door::Door;
use crate::http::problem::Problem;

/// The registration is removed first, so that the device gets no new assignments. The monitor reassigns any
/// seat that is left, because the device sends no more heartbeats.
pub(crate) async fn leave(door: &Door, key: &DeviceKey) -> Result<(), Problem> {
    door.stores.devices.remove_devices(std::slice::from_ref(key)).await?;
    door.fleet.rosters.forget(&key.tenant);
    let want = Want::Ask(Ask::Input(Input::DeviceGone { device: key.device.clone() }));
    let mut done: BTreeSet<RunKey> = BTreeSet::new();
    loop {
        let seats = door.fleet.seats(key.clone()).await?;
        let (count, before) = (seats.len(), done.len());
        let runs = seats.into_iter().map(|seat| seat.run).filter(|run| done.insert(run.clone()));
        let orders = runs.map(|key| Order { key, want: want.clone(), by: None }).collect();
        // A refused command means that the seat was released or the run has ended in the meantime.
        door.fleet.order(orders).await?.into_iter().collect::<millstream_store::Result<Vec<_>>>()?;
        if count < SEATS || done.len() == before {
            return Ok(());
        }
    }
}
