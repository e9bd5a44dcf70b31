//! Batches the reads and writes of devices: many requests in one query.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures::FutureExt;
use millstream_core::claim::{Candidate, Device, Occupied};
use millstream_core::id::{DeviceKey, RunKey, TenantId};
use millstream_store::clock::Clock;
use millstream_store::run_store::{SeatBeat, SeatPulse, StoredRun};
use millstream_store::running::{self, Answer, Order, Rosters};
use millstream_store::{Result, StoreError, Stores};
use tokio_util::task::TaskTracker;

use super::ears::Ears;
use crate::door::Door;
use crate::lookup::Lookup;

/// Upper bound of a device's assignments in one list.
pub(crate) const SEATS: usize = 256;

/// Runs written in one transaction.
const ORDERS: usize = 256;

pub(crate) struct Fleet {
    pub(crate) ears: Ears,
    pub(crate) rosters: Arc<Rosters>,
    devices: Lookup<DeviceKey, Option<Candidate>>,
    words: Lookup<(TenantId, Device), ()>,
    beats: Lookup<SeatBeat, SeatPulse>,
    seats: Lookup<DeviceKey, Vec<Occupied>>,
    runs: Lookup<RunKey, Option<StoredRun>>,
    orders: Lookup<Order, Result<Answer>>,
    choices: AtomicU64,
    pub(super) tellers: TaskTracker,
}

impl Fleet {
    pub(crate) fn start(
        stores: &Stores,
        clock: &Arc<dyn Clock>,
        ears: Ears,
        door: Weak<Door>,
        tasks: &TaskTracker,
    ) -> Self {
        let rosters = Arc::new(Rosters::default());
        let orders = move |orders: Vec<Order>| {
            let door = door.clone();
            async move {
                let gone = || StoreError::Unavailable("the door is closed".to_owned());
                let door = door.upgrade().ok_or_else(gone)?;
                Ok(running::perform(&*door, &orders).await)
            }
            .boxed()
        };
        let store = stores.devices.clone();
        let devices = move |keys: Vec<DeviceKey>| {
            let store = store.clone();
            async move { store.devices(&keys).await }.boxed()
        };
        let (store, time, heard) = (stores.devices.clone(), clock.clone(), rosters.clone());
        let words = move |words: Vec<(TenantId, Device)>| {
            let (store, time, heard) = (store.clone(), time.clone(), heard.clone());
            async move {
                let now = time.now();
                store.beat_devices(&words, now).await?;
                words.iter().for_each(|(tenant, device)| heard.hear(tenant, device, now));
                Ok(vec![(); words.len()])
            }
            .boxed()
        };
        let (store, time) = (stores.runs.clone(), clock.clone());
        let beats = move |beats: Vec<SeatBeat>| {
            let (store, time) = (store.clone(), time.clone());
            async move { store.beat_seats(&beats, time.now()).await }.boxed()
        };
        let store = stores.run_views.clone();
        let seats = move |keys: Vec<DeviceKey>| {
            let store = store.clone();
            async move { store.seats_of(&keys, SEATS).await }.boxed()
        };
        let store = stores.runs.clone();
        let runs = move |keys: Vec<RunKey>| {
            let store = store.clone();
            async move { store.load_runs(&keys).await }.boxed()
        };
        Self {
            ears,
            rosters,
            orders: Lookup::start_with(ORDERS, orders, tasks),
            devices: Lookup::start(devices, tasks),
            words: Lookup::start(words, tasks),
            beats: Lookup::start(beats, tasks),
            seats: Lookup::start(seats, tasks),
            runs: Lookup::start(runs, tasks),
            choices: AtomicU64::new(0),
            tellers: tasks.clone(),
        }
    }

    pub(crate) async fn device(&self, key: DeviceKey) -> Result<Option<Candidate>> {
        Ok(self.devices.ask(vec![key]).await?.pop().flatten())
    }

    /// Records a device's self-description; the latest one wins.
    pub(crate) async fn hear(&self, tenant: TenantId, device: Device) -> Result<()> {
        self.words.ask(vec![(tenant, device)]).await.map(|_| ())
    }

    pub(crate) async fn beat(&self, beats: Vec<SeatBeat>) -> Result<Vec<SeatPulse>> {
        if beats.is_empty() { Ok(Vec::new()) } else { self.beats.ask(beats).await }
    }

    pub(crate) async fn seats(&self, key: DeviceKey) -> Result<Vec<Occupied>> {
        Ok(self.seats.ask(vec![key]).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn runs(&self, keys: Vec<RunKey>) -> Result<Vec<Option<StoredRun>>> {
        if keys.is_empty() { Ok(Vec::new()) } else { self.runs.ask(keys).await }
    }

    /// Applies commands to runs; commands that arrive during a write join the next one (group commit).
    pub(crate) async fn order(&self, orders: Vec<Order>) -> Result<Vec<Result<Answer>>> {
        if orders.is_empty() { Ok(Vec::new()) } else { self.orders.ask(orders).await }
    }

    pub(super) fn rotation(&self) -> u64 {
        self.choices.fetch_add(1, Ordering::Relaxed)
    }
}
