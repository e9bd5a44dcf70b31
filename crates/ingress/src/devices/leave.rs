//! A device leaves: it is forgotten, and what it has goes to others.

use std::collections::BTreeSet;

use millstream_core::claim::Input;
use millstream_core::id::{DeviceKey, RunKey};
use millstream_store::running::{Ask, Order, Want};

use super::fleet::SEATS;
use crate::door::Door;
use crate::http::problem::Problem;

/// Forgotten first, so that nothing comes back to it. Whatever is not taken from it here is found by the monitor when
/// it is not heard of.
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
        // What is refused was given back or has ended meanwhile.
        door.fleet.order(orders).await?.into_iter().collect::<millstream_store::Result<Vec<_>>>()?;
        if count < SEATS || done.len() == before {
            return Ok(());
        }
    }
}
