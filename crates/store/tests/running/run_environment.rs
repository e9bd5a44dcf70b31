//! An environment around the in-memory store that counts reads and writes, and may have a concurrent rival.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_devices::claim::{
    DeviceAction, DeviceCandidate, DeviceReport, RunInput, RunOutcome, RunRecord, RunSpec, SeatAct,
    SeatToken, SelectionWeights, WaitingAction,
};
use millstream_model::id::{DeviceId, DeviceKey, Name, RunId, RunKey, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::action_store::Settlement;
use millstream_store::device_store::DeviceStore;
use millstream_store::run_service::{
    CreateRunReply, DeviceRunCommand, DeviceRunCommandKind, RosterCache, RunCounters, RunEnvironment,
    RunOperation, RunOperationReply, RunReply, WrittenRuns, perform_commands,
};
use millstream_store::run_store::{
    CommittedRuns, RunStore, RunUnit, RunWrite, SeatHeartbeat, SeatPulse, StoredRun,
};
use millstream_store::{StoreError, StoreResult, Stores};
use millstream_store_memory::MemoryStore;

/// A concurrent write just before a commit.
type ConcurrentRival = Box<dyn FnMut(&RunUnit) -> Option<RunWrite> + Send>;

pub(crate) struct RunShell {
    stores: Stores,
    now: AtomicI64,
    choices: AtomicU64,
    rosters: RosterCache,
    pub(crate) counted: Arc<StoreCallCounts>,
    pub(crate) tally: Mutex<RunCounters>,
}

#[derive(Default)]
pub(crate) struct StoreCallCounts {
    pub(crate) loads: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    pub(crate) rosters: AtomicUsize,
    pub(crate) rival: Mutex<Option<ConcurrentRival>>,
}

impl StoreCallCounts {
    /// Since the last call: reads of runs, commits, reads of rosters.
    pub(crate) fn take(&self) -> (usize, usize, usize) {
        let [loads, commits, rosters] =
            [&self.loads, &self.commits, &self.rosters].map(|count| count.swap(0, Ordering::SeqCst));
        (loads, commits, rosters)
    }
}

struct CountingStore {
    runs: Arc<dyn RunStore>,
    devices: Arc<dyn DeviceStore>,
    counted: Arc<StoreCallCounts>,
}

#[async_trait::async_trait]
impl RunStore for CountingStore {
    async fn load_runs(&self, keys: &[RunKey]) -> StoreResult<Vec<Option<StoredRun>>> {
        self.counted.loads.fetch_add(1, Ordering::SeqCst);
        if keys.iter().any(|key| key.run.as_str() == "unreadable") {
            return Err(StoreError::Corrupt("it cannot be read".to_owned()));
        }
        self.runs.load_runs(keys).await
    }

    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns> {
        self.counted.commits.fetch_add(1, Ordering::SeqCst);
        let write = self.counted.rival.lock().unwrap().as_mut().and_then(|rival| rival(&units[0]));
        if let Some(write) = write {
            self.runs.commit_runs(&[write.into()], now).await?;
        }
        self.runs.commit_runs(units, now).await
    }

    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> StoreResult<Vec<SeatPulse>> {
        self.runs.record_seat_heartbeats(beats, now).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<RunKey>> {
        self.runs.due_runs(now, limit).await
    }
}

#[async_trait::async_trait]
impl DeviceStore for CountingStore {
    async fn record_device_heartbeats(
        &self,
        beats: &[(TenantId, DeviceReport)],
        now: Timestamp,
    ) -> StoreResult<()> {
        self.devices.record_device_heartbeats(beats, now).await
    }

    async fn read_roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> StoreResult<Vec<DeviceCandidate>> {
        self.counted.rosters.fetch_add(1, Ordering::SeqCst);
        self.devices.read_roster(tenant, after, limit).await
    }

    async fn find_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<Option<DeviceCandidate>>> {
        self.devices.find_devices(keys).await
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> StoreResult<Vec<bool>> {
        self.devices.pause_devices(keys, pause).await
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> StoreResult<Vec<bool>> {
        self.devices.remove_devices(keys).await
    }
}

#[async_trait::async_trait]
impl RunEnvironment for RunShell {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    fn weights(&self) -> SelectionWeights {
        SelectionWeights { rank: 0.0, ..SelectionWeights::default() }
    }

    fn rosters(&self) -> &RosterCache {
        &self.rosters
    }

    fn next_rotation(&self) -> u64 {
        self.choices.fetch_add(1, Ordering::SeqCst)
    }

    async fn build_settlements(
        &self,
        ended: Vec<(WaitingAction, RunOutcome)>,
    ) -> Vec<StoreResult<Option<Settlement>>> {
        ended.iter().map(|_| Ok(None)).collect()
    }

    async fn publish_changes(&self, written: WrittenRuns) {
        *self.tally.lock().unwrap() = written.tally;
    }
}

impl RunShell {
    pub(crate) fn new() -> Self {
        let mut stores = Stores::from_backend(MemoryStore::new());
        let counted = Arc::new(StoreCallCounts::default());
        let (runs, devices) = (stores.runs.clone(), stores.devices.clone());
        let watched = Arc::new(CountingStore { runs, devices, counted: counted.clone() });
        (stores.runs, stores.devices) = (watched.clone(), watched);
        Self {
            stores,
            now: AtomicI64::new(1_000_000),
            choices: AtomicU64::new(0),
            rosters: RosterCache::default(),
            counted,
            tally: Mutex::default(),
        }
    }

    /// The same on the store of another one, as another process.
    pub(crate) fn beside(mut self, other: &Self) -> Self {
        self.stores = other.stores.clone();
        self
    }

    /// With `count` devices `d0`, `d1` … that take one run each.
    pub(crate) async fn with_devices(count: usize) -> Self {
        let shell = Self::new();
        for number in 0..count {
            shell.register(&format!("d{number}"), Some(1)).await;
        }
        shell
    }

    /// As another process would: this one has not cached it.
    pub(crate) async fn register(&self, id: &str, capacity: Option<u32>) {
        let device = DeviceReport { capacity, ..DeviceReport::with_defaults(device(id), self.now()) };
        self.stores
            .devices
            .record_device_heartbeats(&[(TenantId::default_tenant(), device)], self.now())
            .await
            .unwrap();
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) async fn perform(&self, orders: &[DeviceRunCommand]) -> Vec<StoreResult<RunReply>> {
        perform_commands(self, orders).await
    }

    /// The runs of commands that create.
    pub(crate) async fn created(&self, orders: &[DeviceRunCommand]) -> Vec<RunRecord> {
        let new = |answer: StoreResult<RunReply>| match answer {
            Ok(RunReply::Created(CreateRunReply::New(run))) => *run,
            other => panic!("{other:?}"),
        };
        self.perform(orders).await.into_iter().map(new).collect()
    }

    /// The answers of commands on existing runs.
    pub(crate) async fn acted(&self, orders: &[DeviceRunCommand]) -> Vec<RunOperationReply> {
        let acted = |answer: StoreResult<RunReply>| match answer {
            Ok(RunReply::Acted(acted)) => acted,
            other => panic!("{other:?}"),
        };
        self.perform(orders).await.into_iter().map(acted).collect()
    }

    pub(crate) async fn run(&self, id: &str) -> RunRecord {
        let found = self.stores.runs.load_runs(&[key(id)]).await.unwrap();
        found.into_iter().flatten().next().unwrap().run
    }
}

pub(crate) fn device(id: &str) -> DeviceId {
    DeviceId::parse(id).unwrap()
}

pub(crate) fn key(id: &str) -> RunKey {
    RunKey { tenant: TenantId::default_tenant(), run: RunId::parse(id).unwrap() }
}

pub(crate) fn spec() -> RunSpec {
    RunSpec::with_defaults(Name::parse("render").unwrap(), RawJson::null())
}

pub(crate) fn new(id: &str, spec: RunSpec) -> DeviceRunCommand {
    DeviceRunCommand { key: key(id), want: DeviceRunCommandKind::Create(Box::new(spec)), by: None }
}

pub(crate) fn ask(id: &str, ask: RunOperation) -> DeviceRunCommand {
    DeviceRunCommand { key: key(id), want: DeviceRunCommandKind::Ask(ask), by: None }
}

pub(crate) fn does(id: &str, by: &str, seat: u16, token: i64, doing: DeviceAction) -> DeviceRunCommand {
    let act = SeatAct { device: device(by), seat, token: SeatToken(token) };
    ask(id, RunOperation::Input(RunInput::Act(act, doing)))
}

/// The holder of each seat of the run, by number.
pub(crate) fn holders(run: &RunRecord) -> Vec<Option<String>> {
    run.seats.iter().map(|seat| seat.current_holding().map(|held| held.device.to_string())).collect()
}
