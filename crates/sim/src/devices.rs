//! The store of a simulation, continued: devices and their runs.

use millstream_core::claim::{Candidate, Device, Occupied};
use millstream_core::id::{DeviceId, DeviceKey, RunKey, TenantId};
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::device_store::DeviceStore;
use millstream_store::run_store::{
    CommittedRuns, FleetCounts, RunEntry, RunFilter, RunStore, RunViews, SeatBeat, SeatPulse, StoredRun, Unit,
};

use crate::stores::Scheduled;

fn runs<'a>(keys: impl IntoIterator<Item = &'a RunKey>) -> String {
    keys.into_iter().map(|key| key.run.to_string()).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl DeviceStore for Scheduled {
    async fn beat_devices(&self, beats: &[(TenantId, Device)], now: Timestamp) -> Result<()> {
        let effect = self.truth.devices.beat_devices(beats, now);
        self.role.call("beat_devices", String::new, effect).await
    }

    async fn roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        self.role.call("roster", String::new, self.truth.devices.roster(tenant, after, limit)).await
    }

    async fn devices(&self, keys: &[DeviceKey]) -> Result<Vec<Option<Candidate>>> {
        self.role.call("devices", String::new, self.truth.devices.devices(keys)).await
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> Result<Vec<bool>> {
        let effect = self.truth.devices.pause_devices(keys, pause);
        self.role.call("pause_devices", String::new, effect).await
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> Result<Vec<bool>> {
        self.role.call("remove_devices", String::new, self.truth.devices.remove_devices(keys)).await
    }
}

#[async_trait::async_trait]
impl RunStore for Scheduled {
    async fn load_runs(&self, keys: &[RunKey]) -> Result<Vec<Option<StoredRun>>> {
        self.role.call("load_runs", || runs(keys), self.truth.runs.load_runs(keys)).await
    }

    async fn commit_runs(&self, units: &[Unit], now: Timestamp) -> Result<CommittedRuns> {
        let about = || runs(units.iter().flat_map(|unit| unit.writes.iter().map(|write| &write.key)));
        let (me, owned) = (self.clone(), units.to_vec());
        let effect = async move { me.truth.runs.commit_runs(&owned, now).await };
        self.role.send("commit_runs", about, effect).await
    }

    async fn beat_seats(&self, beats: &[SeatBeat], now: Timestamp) -> Result<Vec<SeatPulse>> {
        let about = || runs(beats.iter().map(|beat| &beat.run));
        let (me, owned) = (self.clone(), beats.to_vec());
        let effect = async move { me.truth.runs.beat_seats(&owned, now).await };
        self.role.send("beat_seats", about, effect).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> Result<Vec<RunKey>> {
        self.role.call("due_runs", String::new, self.truth.runs.due_runs(now, limit)).await
    }
}

#[async_trait::async_trait]
impl RunViews for Scheduled {
    async fn list_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<StoredRun>> {
        let effect = self.truth.run_views.list_runs(tenant, filter, after, limit);
        self.role.call("list_runs", String::new, effect).await
    }

    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> Result<Vec<Vec<Occupied>>> {
        self.role.call("seats_of", String::new, self.truth.run_views.seats_of(devices, limit)).await
    }

    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> Result<Vec<RunEntry>> {
        self.role.call("run_log", || runs([run]), self.truth.run_views.run_log(run, after, limit)).await
    }

    async fn run_log_end(&self, run: &RunKey, limit: usize) -> Result<Vec<RunEntry>> {
        self.role.call("run_log_end", || runs([run]), self.truth.run_views.run_log_end(run, limit)).await
    }

    async fn count_fleet(&self, since: Timestamp) -> Result<FleetCounts> {
        self.role.call("count_fleet", String::new, self.truth.run_views.count_fleet(since)).await
    }
}
