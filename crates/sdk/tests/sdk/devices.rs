//! A user's own device at a real engine: runs are received, performed, and lost.

use std::time::Duration;

use millstream_sdk::client::{
    DeviceVitals, NewDevice, NewRun, RunAct, RunAssignment, RunAssignmentMode, RunDueAction, RunFailureKind,
    RunLogWord, RunLossReason, RunOverrides, RunStatus, RunSummary,
};
use millstream_sdk::{CancellationToken, Client, ClientError, Device, RunContext, RunError};
use millstream_testkit::eventually;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::world::{SOON, SdkWorld};

fn able(id: &str) -> NewDevice {
    NewDevice::of(id).can("count").capacity(2)
}

/// The run, once the condition holds.
async fn run_when(client: &Client, id: &str, is_so: impl Fn(&RunSummary) -> bool) -> RunSummary {
    eventually(SOON, || async {
        let run = client.run(id).await.map_err(|error| error.to_string())?;
        if is_so(&run) { Ok(run) } else { Err(format!("{run:?}")) }
    })
    .await
}

async fn run_in(client: &Client, id: &str, status: RunStatus) -> RunSummary {
    run_when(client, id, |run| run.status == status).await
}

struct ServedDevice {
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ClientError>>,
}

impl ServedDevice {
    fn start<F, Fut>(device: Device, perform: F) -> Self
    where
        F: Fn(RunContext, u64) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<u64, RunError>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let ended = tokio::spawn(async move { device.serve_until(stopped.cancelled_owned(), perform).await });
        Self { stop, ended }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(SOON, self.ended).await.expect("it stops").unwrap().unwrap();
    }
}

#[tokio::test]
async fn device_accepts_and_completes_run() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let device = Device::new(client.clone(), able("one"))
        .vitals(|| DeviceVitals { load: Some(0.25), ..DeviceVitals::default() });
    let served = ServedDevice::start(device, async |run: RunContext, to: u64| {
        run.progress_with(to, to, "counted");
        Ok(to + run.token() as u64)
    });
    client.create_run(&NewRun::of("count").id("r-1").requires("count").input(json!(4))).await.unwrap();
    let done = run_in(client, "r-1", RunStatus::Completed).await;
    assert_eq!(
        (done.seats[0].output.as_ref(), done.seats[0].device.as_deref()),
        (Some(&json!(5)), Some("one"))
    );
    assert_eq!(done.seats[0].progress.as_ref().unwrap().note.as_deref(), Some("counted"));
    // Input that does not fit the function fails permanently, with its place.
    client.create_run(&NewRun::of("count").id("r-2").requires("count").input(json!("x"))).await.unwrap();
    let failed = run_in(client, "r-2", RunStatus::Failed).await;
    let error = failed.seats[0].error.as_ref().expect("a failed seat has an error");
    assert_eq!((error.kind, error.class.as_deref()), (RunFailureKind::Error, Some("input")));
    served.stop().await;
    assert_eq!(client.device("one").await.unwrap().capacity, Some(2));
}

#[tokio::test]
async fn run_is_performed_by_one_device() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let (sender, mut done) = mpsc::unbounded_channel();
    let served = ServedDevice::start(
        Device::new(client.clone(), able("one").capacity(20)),
        move |run: RunContext, to: u64| {
            let sender = sender.clone();
            async move {
                sender.send(run.run_id().to_owned()).unwrap();
                Ok(to)
            }
        },
    );
    for at in 0..20 {
        let run = NewRun::of("count").id(format!("r-{at}")).requires("count").input(json!(1));
        client.create_run(&run).await.unwrap();
    }
    for at in 0..20 {
        run_in(client, &format!("r-{at}"), RunStatus::Completed).await;
    }
    served.stop().await;
    let mut all = Vec::new();
    while let Some(id) = done.recv().await {
        all.push(id);
    }
    all.sort();
    let once = all.len();
    all.dedup();
    assert_eq!((all.len(), once), (20, 20), "{all:?}");
}

#[tokio::test]
async fn unwilling_device_declines_with_reason() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let picky = Device::new(client.clone(), able("a"))
        .willing(|of: &RunAssignment| if of.priority > 5 { Ok(()) } else { Err("not for me".to_owned()) });
    let picky = ServedDevice::start(picky, async |_: RunContext, _: u64| {
        Err(RunError::ask_another("it is broken").class("broken"))
    });
    eventually(SOON, || async { client.device("a").await.map_err(|error| error.to_string()) }).await;
    let run = |id: &str| NewRun::of("count").id(id).requires("count").input(json!(3));
    // Runs created by the device itself are claimed without an offer.
    for (id, run, ended) in [("r-1", run("r-1"), "declined"), ("r-2", run("r-2").created_by("a"), "released")]
    {
        client.create_run(&run).await.unwrap();
        let waits = run_when(client, id, |run| !run.seats[0].earlier_assignments().is_empty()).await;
        let before = &waits.seats[0].earlier_assignments()[0];
        assert_eq!((before.reason.as_str(), before.why.as_deref()), (ended, Some("not for me")));
    }
    picky.stop().await;
}

#[tokio::test]
async fn function_is_notified_of_lost_run() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let (sender, mut lost) = mpsc::unbounded_channel();
    let served = ServedDevice::start(Device::new(client.clone(), able("one")), move |run: RunContext, _| {
        let sender = sender.clone();
        async move {
            run.progress(1, 2);
            run.lost().await;
            sender.send(run.is_lost()).unwrap();
            Ok(7)
        }
    });
    client.create_run(&NewRun::of("count").id("r-1").requires("count").input(json!(1))).await.unwrap();
    run_when(client, "r-1", |run| run.seats[0].progress.as_ref().is_some_and(|told| told.step == 1)).await;
    client.cancel_run("r-1", Some("enough")).await.unwrap();
    let heard = tokio::time::timeout(SOON, lost.recv()).await.expect("the function is notified");
    assert_eq!(heard, Some(true));
    served.stop().await;
    assert_eq!(client.run("r-1").await.unwrap().status, RunStatus::Failed);
}

#[tokio::test]
async fn stopping_device_releases_unfinished_run() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let device = Device::new(client.clone(), able("one")).grace(Duration::from_millis(1));
    let served = ServedDevice::start(device, async |_: RunContext, _: u64| std::future::pending().await);
    client.create_run(&NewRun::of("count").id("r-1").requires("count").input(json!(1))).await.unwrap();
    run_in(client, "r-1", RunStatus::Processing).await;
    served.stop().await;
    let run = run_in(client, "r-1", RunStatus::Reassigning).await;
    assert_eq!(run.seats[0].earlier_assignments()[0].reason, RunLossReason::Released);
}

#[tokio::test]
async fn restarted_device_resumes_its_runs() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.register_device(&able("one")).await.unwrap();
    client.create_run(&NewRun::of("count").id("r-1").requires("count").input(json!(9))).await.unwrap();
    let list = client.run_assignments("one", None, Duration::from_secs(30)).await.unwrap();
    for act in [RunAct::Accept, RunAct::Start] {
        client.act_on_run("one", &list.items[0], &act).await.unwrap();
    }
    let served =
        ServedDevice::start(Device::new(client.clone(), able("one")), async |_: RunContext, to: u64| Ok(to));
    let run = run_in(client, "r-1", RunStatus::Completed).await;
    assert_eq!((run.seats[0].token, run.seats[0].output.as_ref()), (Some(1), Some(&json!(9))));
    served.stop().await;
}

#[tokio::test]
async fn removed_device_stops_serving() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let device = Device::new(client.clone(), able("one")).beat_every(Duration::from_millis(50));
    let served = ServedDevice::start(device, async |_: RunContext, to: u64| Ok(to));
    eventually(SOON, || async { client.device("one").await.map_err(|error| error.to_string()) }).await;
    client.remove_device("one").await.unwrap();
    let ended = tokio::time::timeout(SOON, served.ended).await.expect("it ends").unwrap();
    assert!(ended.unwrap_err().is_not_found());
}

#[tokio::test]
async fn panicking_run_goes_to_another_device() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let first =
        ServedDevice::start(Device::new(client.clone(), able("one")), async |_: RunContext, _: u64| {
            panic!("oh no")
        });
    client.create_run(&NewRun::of("count").id("r-1").requires("count").input(json!(1))).await.unwrap();
    let run = run_when(client, "r-1", |run| !run.seats[0].earlier_assignments().is_empty()).await;
    let before = &run.seats[0].earlier_assignments()[0];
    assert!(before.why.as_deref().unwrap_or_default().contains("oh no"), "{before:?}");
    first.stop().await;
}

#[tokio::test]
async fn run_shows_how_it_was_created() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let settings = RunOverrides { heartbeat: Some(Duration::from_secs(2)), ..RunOverrides::default() };
    let run = NewRun::of("count").id("r-1").requires("count").prefers("fast").min_battery(20);
    let run = run.coordinator_first().created_by("one").for_others().assigned_manually().settings(settings);
    let created = client.create_run(&run).await.unwrap();
    assert_eq!(created, client.run("r-1").await.unwrap());
    assert_eq!((created.status, created.assign), (RunStatus::Created, RunAssignmentMode::Manual));
    assert_eq!((created.requires.len(), created.prefer.len(), created.min_battery), (1, 1, Some(20)));
    assert_eq!((created.created_by.as_deref(), created.waiting), (Some("one"), None));
    assert_eq!(created.settings.unwrap().heartbeat, Duration::from_secs(2));
    assert_eq!((created.seats[0].reassignments, created.seats[0].due), (0, None));
    let listed = &client.runs().kind("count").await.unwrap()[0];
    assert_eq!((listed.settings.as_ref(), listed.input.as_ref()), (None, None));
}

#[tokio::test]
async fn device_claims_run_and_its_log_tells() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.register_device(&able("one")).await.unwrap();
    let mut watched = client.watch_run_assignments("one");
    assert_eq!(watched.next().await.unwrap().unwrap().items, []);
    client.create_run(&NewRun::of("count").id("r-1").assigned_manually()).await.unwrap();
    let claimed = client.claim_run("one", "r-1", None).await.unwrap();
    assert_eq!((claimed.status, claimed.token), (RunStatus::Claimed, Some(1)));
    assert!(claimed.due.is_some_and(|due| due.what != RunDueAction::Place));
    let list = watched.next().await.unwrap().unwrap();
    let of = &list.items[0];
    assert_eq!((of.run_id.as_str(), of.token, of.due), ("r-1", 1, claimed.due));
    let heard = client.heartbeat_device("one", &DeviceVitals::default(), &[(of, None)]).await.unwrap();
    assert_eq!((heard[0].held, heard[0].status, heard[0].holder.as_ref()), (true, None, None));
    // The device still holds the seat: the offline claim changes nothing.
    assert_eq!(client.claim_run_offline("one", of).await.unwrap().token, Some(1));
    client.act_on_run("one", of, &RunAct::Release("enough".to_owned())).await.unwrap();
    let told = client.run_log("r-1").await.unwrap();
    assert_eq!((told[0].word, told[0].from), (RunLogWord::Create, None));
    let last = told.last().unwrap();
    assert_eq!((last.word, last.ended), (RunLogWord::Release, Some(RunLossReason::Released)));
    let why = client.why_run("r-1").await.unwrap();
    assert_eq!((why.run_id.as_str(), why.seats.len()), ("r-1", 1));
}
