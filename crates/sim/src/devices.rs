//! The store of a simulation, continued: devices and their runs.

use millstream_devices::claim::{DeviceCandidate, DeviceReport, OccupiedSeat};
use millstream_model::id::{DeviceId, DeviceKey, RunKey, TenantId};
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::device_store::DeviceStore;
use millstream_store::run_store::{
    CommittedRuns, FleetCounts, RunEntry, RunFilter, RunStore, RunUnit, RunViews, SeatHeartbeat, SeatPulse,
    StoredRun,
};

use crate::stores::ScheduledStores;

fn run_list<'a>(keys: impl IntoIterator<Item = &'a RunKey>) -> String {
    keys.into_iter().map(|key| key.run.to_string()).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl DeviceStore for ScheduledStores {
    async fn record_device_heartbeats(
        &self,
        beats: &[(TenantId, DeviceReport)],
        now: Timestamp,
    ) -> StoreResult<()> {
        let effect = self.truth.devices.record_device_heartbeats(beats, now);
        self.role.call("beat_devices", String::new, effect).await
    }

    async fn read_roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> StoreResult<Vec<DeviceCandidate>> {
        self.role.call("roster", String::new, self.truth.devices.read_roster(tenant, after, limit)).await
    }

    async fn find_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<Option<DeviceCandidate>>> {
        self.role.call("devices", String::new, self.truth.devices.find_devices(keys)).await
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> StoreResult<Vec<bool>> {
        let effect = self.truth.devices.pause_devices(keys, pause);
        self.role.call("pause_devices", String::new, effect).await
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<bool>> {
        self.role.call("remove_devices", String::new, self.truth.devices.remove_devices(keys)).await
    }
}

#[async_trait::async_trait]
impl RunStore for ScheduledStores {
    async fn load_runs(&self, keys: &[RunKey]) -> StoreResult<Vec<Option<StoredRun>>> {
        self.role.call("load_runs", || run_list(keys), self.truth.runs.load_runs(keys)).await
    }

    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns> {
        let about = || run_list(units.iter().flat_map(|unit| unit.writes.iter().map(|write| &write.key)));
        let (me, owned) = (self.clone(), units.to_vec());
        let effect = async move { me.truth.runs.commit_runs(&owned, now).await };
        self.role.send("commit_runs", about, effect).await
    }

    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> StoreResult<Vec<SeatPulse>> {
        let about = || run_list(beats.iter().map(|beat| &beat.run));
        let (me, owned) = (self.clone(), beats.to_vec());
        let effect = async move { me.truth.runs.record_seat_heartbeats(&owned, now).await };
        self.role.send("beat_seats", about, effect).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<RunKey>> {
        self.role.call("due_runs", String::new, self.truth.runs.due_runs(now, limit)).await
    }
}

#[async_trait::async_trait]
impl RunViews for ScheduledStores {
    async fn list_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<StoredRun>> {
        let effect = self.truth.run_views.list_runs(tenant, filter, after, limit);
        self.role.call("list_runs", String::new, effect).await
    }

    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> StoreResult<Vec<Vec<OccupiedSeat>>> {
        self.role.call("seats_of", String::new, self.truth.run_views.seats_of(devices, limit)).await
    }

    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> StoreResult<Vec<RunEntry>> {
        self.role.call("run_log", || run_list([run]), self.truth.run_views.run_log(run, after, limit)).await
    }

    async fn run_log_end(&self, run: &RunKey, limit: usize) -> StoreResult<Vec<RunEntry>> {
        self.role.call("run_log_end", || run_list([run]), self.truth.run_views.run_log_end(run, limit)).await
    }

    async fn count_fleet(&self, since: Timestamp) -> StoreResult<FleetCounts> {
        self.role.call("count_fleet", String::new, self.truth.run_views.count_fleet(since)).await
    }
}
