//! Batches the reads and writes of devices: many requests in one query.

use std::sync::Arc;

use futures::FutureExt;
use millstream_devices::claim::{DeviceCandidate, DeviceReport, OccupiedSeat};
use millstream_model::id::{DeviceKey, RunKey, TenantId};
use millstream_store::StoreResult;
use millstream_store::run_service::{self, DeviceRunCommand, RosterCache, RunReply};
use millstream_store::run_store::{SeatHeartbeat, SeatPulse, StoredRun};
use tokio_util::task::TaskTracker;

use super::environment::DeviceEnvironment;
use crate::coalescer::Coalescer;
use crate::waiters::DeviceWakeups;

/// Upper bound of a device's assignments in one list.
pub(crate) const SEATS: usize = 256;

/// Runs written in one transaction.
const ORDERS: usize = 256;

pub(crate) struct DeviceBatcher {
    pub(crate) ears: DeviceWakeups,
    pub(crate) rosters: Arc<RosterCache>,
    devices: Coalescer<DeviceKey, Option<DeviceCandidate>>,
    words: Coalescer<(TenantId, DeviceReport), ()>,
    beats: Coalescer<SeatHeartbeat, SeatPulse>,
    seats: Coalescer<DeviceKey, Vec<OccupiedSeat>>,
    runs: Coalescer<RunKey, Option<StoredRun>>,
    orders: Coalescer<DeviceRunCommand, StoreResult<RunReply>>,
}

impl DeviceBatcher {
    pub(crate) fn start_batchers(environment: DeviceEnvironment, tasks: &TaskTracker) -> Self {
        let (stores, clock) = (environment.stores.clone(), environment.clock.clone());
        let (ears, rosters) = (environment.ears.clone(), environment.rosters.clone());
        let environment = Arc::new(environment);
        let orders = move |orders: Vec<DeviceRunCommand>| {
            let environment = environment.clone();
            async move { Ok(run_service::perform_commands(&*environment, &orders).await) }.boxed()
        };
        let store = stores.devices.clone();
        let devices = move |keys: Vec<DeviceKey>| {
            let store = store.clone();
            async move { store.find_devices(&keys).await }.boxed()
        };
        let (store, time, heard) = (stores.devices.clone(), clock.clone(), rosters.clone());
        let words = move |words: Vec<(TenantId, DeviceReport)>| {
            let (store, time, heard) = (store.clone(), time.clone(), heard.clone());
            async move {
                let now = time.now();
                store.record_device_heartbeats(&words, now).await?;
                words.iter().for_each(|(tenant, device)| heard.record_heartbeat(tenant, device, now));
                Ok(vec![(); words.len()])
            }
            .boxed()
        };
        let (store, time) = (stores.runs.clone(), clock.clone());
        let beats = move |beats: Vec<SeatHeartbeat>| {
            let (store, time) = (store.clone(), time.clone());
            async move { store.record_seat_heartbeats(&beats, time.now()).await }.boxed()
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
            orders: Coalescer::start_with_limit(ORDERS, orders, tasks),
            devices: Coalescer::start_coalescer(devices, tasks),
            words: Coalescer::start_coalescer(words, tasks),
            beats: Coalescer::start_coalescer(beats, tasks),
            seats: Coalescer::start_coalescer(seats, tasks),
            runs: Coalescer::start_coalescer(runs, tasks),
        }
    }

    pub(crate) async fn find_device(&self, key: DeviceKey) -> StoreResult<Option<DeviceCandidate>> {
        Ok(self.devices.ask_batched(vec![key]).await?.pop().flatten())
    }

    /// Records a device's self-description; the latest one wins.
    pub(crate) async fn record_device(&self, tenant: TenantId, device: DeviceReport) -> StoreResult<()> {
        self.words.ask_batched(vec![(tenant, device)]).await.map(|_| ())
    }

    pub(crate) async fn record_beats(&self, beats: Vec<SeatHeartbeat>) -> StoreResult<Vec<SeatPulse>> {
        if beats.is_empty() { Ok(Vec::new()) } else { self.beats.ask_batched(beats).await }
    }

    pub(crate) async fn seats_of(&self, key: DeviceKey) -> StoreResult<Vec<OccupiedSeat>> {
        Ok(self.seats.ask_batched(vec![key]).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn load_runs(&self, keys: Vec<RunKey>) -> StoreResult<Vec<Option<StoredRun>>> {
        if keys.is_empty() { Ok(Vec::new()) } else { self.runs.ask_batched(keys).await }
    }

    /// Applies commands to runs; commands that arrive during a write join the next one (group commit).
    pub(crate) async fn apply_commands(
        &self,
        orders: Vec<DeviceRunCommand>,
    ) -> StoreResult<Vec<StoreResult<RunReply>>> {
        if orders.is_empty() { Ok(Vec::new()) } else { self.orders.ask_batched(orders).await }
    }
}
