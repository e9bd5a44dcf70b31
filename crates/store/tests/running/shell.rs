//! An environment around the in-memory store that counts reads and writes, and may have a concurrent rival.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_core::claim::{
    Act, Candidate, Device, Doing, Input, Run, RunSpec, Token, Told, WaitingAction, Weights,
};
use millstream_core::id::{DeviceId, DeviceKey, Name, RunId, RunKey, TenantId};
use millstream_core::raw::RawJson;
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;
use millstream_store::action_store::Settlement;
use millstream_store::device_store::DeviceStore;
use millstream_store::memory::Memory;
use millstream_store::run_store::{CommittedRuns, RunStore, RunWrite, SeatBeat, SeatPulse, StoredRun, Unit};
use millstream_store::running::{
    Acted, Answer, Around, Ask, Created, Order, Rosters, Tally, Want, Written, perform,
};
use millstream_store::{Result, StoreError, Stores};

/// A concurrent write just before a commit.
type Rival = Box<dyn FnMut(&Unit) -> Option<RunWrite> + Send>;

pub(crate) struct Shell {
    stores: Stores,
    now: AtomicI64,
    choices: AtomicU64,
    rosters: Rosters,
    pub(crate) counted: Arc<Counted>,
    pub(crate) tally: Mutex<Tally>,
}

#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) loads: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    pub(crate) rosters: AtomicUsize,
    pub(crate) rival: Mutex<Option<Rival>>,
}

impl Counted {
    /// Since the last call: reads of runs, commits, reads of rosters.
    pub(crate) fn take(&self) -> (usize, usize, usize) {
        let [loads, commits, rosters] =
            [&self.loads, &self.commits, &self.rosters].map(|count| count.swap(0, Ordering::SeqCst));
        (loads, commits, rosters)
    }
}

struct Watched {
    runs: Arc<dyn RunStore>,
    devices: Arc<dyn DeviceStore>,
    counted: Arc<Counted>,
}

#[async_trait::async_trait]
impl RunStore for Watched {
    async fn load_runs(&self, keys: &[RunKey]) -> Result<Vec<Option<StoredRun>>> {
        self.counted.loads.fetch_add(1, Ordering::SeqCst);
        if keys.iter().any(|key| key.run.as_str() == "unreadable") {
            return Err(StoreError::Corrupt("it cannot be read".to_owned()));
        }
        self.runs.load_runs(keys).await
    }

    async fn commit_runs(&self, units: &[Unit], now: Timestamp) -> Result<CommittedRuns> {
        self.counted.commits.fetch_add(1, Ordering::SeqCst);
        let write = self.counted.rival.lock().unwrap().as_mut().and_then(|rival| rival(&units[0]));
        if let Some(write) = write {
            self.runs.commit_runs(&[write.into()], now).await?;
        }
        self.runs.commit_runs(units, now).await
    }

    async fn beat_seats(&self, beats: &[SeatBeat], now: Timestamp) -> Result<Vec<SeatPulse>> {
        self.runs.beat_seats(beats, now).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> Result<Vec<RunKey>> {
        self.runs.due_runs(now, limit).await
    }
}

#[async_trait::async_trait]
impl DeviceStore for Watched {
    async fn beat_devices(&self, beats: &[(TenantId, Device)], now: Timestamp) -> Result<()> {
        self.devices.beat_devices(beats, now).await
    }

    async fn roster(
        &self,
        tenant: &TenantId,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        self.counted.rosters.fetch_add(1, Ordering::SeqCst);
        self.devices.roster(tenant, after, limit).await
    }

    async fn devices(&self, keys: &[DeviceKey]) -> Result<Vec<Option<Candidate>>> {
        self.devices.devices(keys).await
    }

    async fn pause_devices(&self, keys: &[DeviceKey], pause: PauseState) -> Result<Vec<bool>> {
        self.devices.pause_devices(keys, pause).await
    }

    async fn remove_devices(&self, keys: &[DeviceKey]) -> Result<Vec<bool>> {
        self.devices.remove_devices(keys).await
    }
}

#[async_trait::async_trait]
impl Around for Shell {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    fn weights(&self) -> Weights {
        Weights { rank: 0.0, ..Weights::default() }
    }

    fn rosters(&self) -> &Rosters {
        &self.rosters
    }

    fn rotation(&self) -> u64 {
        self.choices.fetch_add(1, Ordering::SeqCst)
    }

    async fn settlements(&self, ended: Vec<(WaitingAction, Told)>) -> Vec<Result<Option<Settlement>>> {
        ended.iter().map(|_| Ok(None)).collect()
    }

    async fn written(&self, written: Written) {
        *self.tally.lock().unwrap() = written.tally;
    }
}

impl Shell {
    pub(crate) fn new() -> Self {
        let mut stores = Stores::of(Memory::new());
        let counted = Arc::new(Counted::default());
        let (runs, devices) = (stores.runs.clone(), stores.devices.clone());
        let watched = Arc::new(Watched { runs, devices, counted: counted.clone() });
        (stores.runs, stores.devices) = (watched.clone(), watched);
        Self {
            stores,
            now: AtomicI64::new(1_000_000),
            choices: AtomicU64::new(0),
            rosters: Rosters::default(),
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
        let device = Device { capacity, ..Device::plain(device(id), self.now()) };
        self.stores.devices.beat_devices(&[(TenantId::default_tenant(), device)], self.now()).await.unwrap();
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) async fn perform(&self, orders: &[Order]) -> Vec<Result<Answer>> {
        perform(self, orders).await
    }

    /// The runs of commands that create.
    pub(crate) async fn created(&self, orders: &[Order]) -> Vec<Run> {
        let new = |answer: Result<Answer>| match answer {
            Ok(Answer::Created(Created::New(run))) => *run,
            other => panic!("{other:?}"),
        };
        self.perform(orders).await.into_iter().map(new).collect()
    }

    /// The answers of commands on existing runs.
    pub(crate) async fn acted(&self, orders: &[Order]) -> Vec<Acted> {
        let acted = |answer: Result<Answer>| match answer {
            Ok(Answer::Acted(acted)) => acted,
            other => panic!("{other:?}"),
        };
        self.perform(orders).await.into_iter().map(acted).collect()
    }

    pub(crate) async fn run(&self, id: &str) -> Run {
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
    RunSpec::of(Name::parse("render").unwrap(), RawJson::null())
}

pub(crate) fn new(id: &str, spec: RunSpec) -> Order {
    Order { key: key(id), want: Want::Create(Box::new(spec)), by: None }
}

pub(crate) fn ask(id: &str, ask: Ask) -> Order {
    Order { key: key(id), want: Want::Ask(ask), by: None }
}

pub(crate) fn does(id: &str, by: &str, seat: u16, token: i64, doing: Doing) -> Order {
    let act = Act { device: device(by), seat, token: Token(token) };
    ask(id, Ask::Input(Input::Act(act, doing)))
}

/// The holder of each seat of the run, by number.
pub(crate) fn holders(run: &Run) -> Vec<Option<String>> {
    run.seats.iter().map(|seat| seat.held().map(|held| held.device.to_string())).collect()
}
