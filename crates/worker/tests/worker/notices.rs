//! Outbound notices of runs and items: whole workers, on paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_devices::claim::{RunInput, RunSpec, RunStepOutcome, SeatOutlook, create_run, step_run};
use millstream_model::document::SourceFormat;
use millstream_model::id::{ItemId, ItemKey, Name, RunId, RunKey, TenantId, WorkerId};
use millstream_model::raw::RawJson;
use millstream_people::assignment::{self, ItemQueueContext, NewQueueItem, QueueConfig, QueueState};
use millstream_store::item_store::{ItemCommit, ItemRef};
use millstream_store::run_store::{ExpectedVersion, RunVerdict, RunWrite};
use millstream_testkit::eventually;
use millstream_worker::outbound::{CloudEvent, SinkFilter, SinkLoad};

use crate::bench::WorkerBench;
use crate::faulty::{self, FaultyCall, ServiceFault};
use crate::listener::{ScriptedSink, SinkMood, dice};

/// In real time; the workers' time is virtual.
const IN_THE_END: Duration = Duration::from_secs(90);
const LEFT: &str = "millstream.run.nobody_left";

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

async fn write(
    bench: &WorkerBench,
    key: &RunKey,
    expected: ExpectedVersion,
    change: millstream_devices::claim::RunChange,
) {
    let (run, log, unheard) = (change.run, change.log, change.unheard);
    let write = RunWrite { key: key.clone(), expected, run, log, unheard, settlement: None };
    let committed = bench.stores.runs.commit_runs(&[write.into()], bench.now()).await.unwrap();
    assert!(matches!(committed.verdicts[0], RunVerdict::Done { .. }));
}

/// A run for which no device is left, `times` times, as an operator retries it.
async fn nobody_left(bench: &WorkerBench, id: &str, times: usize) {
    let key = RunKey { tenant: TenantId::default_tenant(), run: RunId::parse(id).unwrap() };
    let mut spec = RunSpec::with_defaults(name("render"), RawJson::parse("1").unwrap());
    spec.settings.backoff.rounds = 0;
    write(bench, &key, ExpectedVersion::Nothing, create_run(spec, None, bench.now())).await;
    let nobody = RunInput::NobodyViable { seat: 0, outlook: SeatOutlook::Nobody, decision: None };
    for time in 0..times {
        let again = (time > 0).then_some(RunInput::Retry);
        for input in again.iter().chain([&nobody]) {
            let seen =
                bench.stores.runs.load_runs(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
            let RunStepOutcome::Changed(change) = step_run(seen.run, input, None, bench.now()).unwrap()
            else {
                panic!()
            };
            write(bench, &key, ExpectedVersion::Version(seen.version), *change).await;
        }
    }
}

/// An item that was not done in time.
async fn late_item(bench: &WorkerBench, id: &str, rest: &str) {
    let (tenant, now) = (TenantId::default_tenant(), bench.now());
    let queue = format!("{{name: review, due: 1s{rest}}}");
    let queue = QueueConfig::parse(&queue, SourceFormat::Yaml).unwrap();
    bench.stores.queues.put_queue(&tenant, &queue, now).await.unwrap();
    let item = ItemId::parse(id).unwrap();
    let new = NewQueueItem::with_defaults(item.clone(), RawJson::parse("1").unwrap());
    bench.stores.items.import_items(&tenant, &queue.name, &[new], now).await.unwrap();
    let key = ItemKey { tenant, item };
    let loaded = bench.stores.items.load_items(&[ItemRef::Item(key)]).await.unwrap().remove(0).unwrap();
    let late = now.plus(Duration::from_secs(5));
    let setting = ItemQueueContext { queue: &queue, state: QueueState::Active, escalates_to: None };
    let stepped = assignment::step_item(&loaded.work, setting, &assignment::ItemInput::Overdue, late)
        .expect("it is late");
    let assignment::ItemStepOutcome::Changed(change) = stepped else { panic!() };
    let commit = ItemCommit::of(&loaded, *change, None);
    bench.stores.items.commit_items(&WorkerId::no_worker(), &[commit], late).await.unwrap();
}

/// This many runs, each left by all devices this many times.
async fn runs(bench: &WorkerBench, runs: usize, times: usize) -> BTreeMap<String, usize> {
    let mut wanted = BTreeMap::new();
    for run in 0..runs {
        nobody_left(bench, &format!("r-{run}"), times).await;
        wanted.insert(format!("r-{run}"), times);
    }
    wanted
}

/// All notices arrive, each as often as it happened, in order, and none is left.
async fn hears(bench: &WorkerBench, listener: &ScriptedSink, wanted: &BTreeMap<String, usize>) {
    let enough: usize = wanted.values().sum();
    eventually(IN_THE_END, || async {
        let heard = listener.heard().len() - listener.repetitions();
        if heard >= enough { Ok(()) } else { Err(format!("{heard} of {enough}")) }
    })
    .await;
    let first = listener.first_heard();
    let counts = first.iter().map(|(subject, heard)| (subject.clone(), heard.len()));
    assert_eq!(counts.collect::<BTreeMap<_, _>>(), *wanted);
    for (subject, heard) in &first {
        let place = |id: &str| id.strip_prefix("notice.").unwrap().parse::<i64>().unwrap();
        assert!(heard.iter().map(|(id, _)| place(id)).is_sorted(), "{subject}: {heard:?}");
        assert!(heard.iter().all(|(_, kind)| kind == LEFT), "{heard:?}");
    }
    eventually(IN_THE_END, || async {
        let backlogs = bench.stores.notices.notice_backlogs().await.unwrap();
        if backlogs.iter().any(|backlog| backlog.sink == listener.name) { Err(backlogs) } else { Ok(()) }
    })
    .await;
}

async fn wait(bench: &WorkerBench, length: Duration) {
    let later = bench.now().plus(length);
    eventually(IN_THE_END, || async { if bench.now() >= later { Ok(()) } else { Err(bench.now()) } }).await;
}

#[tokio::test(start_paused = true)]
async fn notices_arrive_in_order_at_faulty_sink() {
    for seed in [1, 2, 3] {
        let mut bench = WorkerBench::new();
        let roll = dice(seed);
        let moody = Arc::new(ScriptedSink::who("moody", move |events| match roll(10) {
            0 => SinkMood::Refuse,
            1 => SinkMood::Away,
            2 => SinkMood::BreakAfter(usize::try_from(roll(events.len() as u64 + 1)).unwrap()),
            _ => SinkMood::Take,
        }));
        let calm = Arc::new(ScriptedSink::who("calm", |_| SinkMood::Take));
        bench.sinks = vec![moody.clone(), calm.clone()];
        let _worker = bench.worker();
        let wanted = runs(&bench, 60, 4).await;
        hears(&bench, &calm, &wanted).await;
        hears(&bench, &moody, &wanted).await;
        assert_eq!(calm.repetitions(), 0, "seed {seed}: another sink has no effect");
        assert!(moody.repetitions() > 0, "seed {seed}: it broke off in the middle");
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_sink_gets_notices_later() {
    let mut bench = WorkerBench::new();
    let back = Arc::new(AtomicBool::new(false));
    let gone = Arc::new(ScriptedSink::who("gone", {
        let back = back.clone();
        move |_| if back.load(Ordering::Relaxed) { SinkMood::Take } else { SinkMood::Away }
    }));
    let calm = Arc::new(ScriptedSink::who("calm", |_| SinkMood::Take));
    bench.sinks = vec![gone.clone(), calm.clone()];
    let _worker = bench.worker();
    let wanted = runs(&bench, 20, 2).await;
    hears(&bench, &calm, &wanted).await;
    wait(&bench, Duration::from_secs(120)).await;
    assert_eq!((gone.heard().len(), calm.repetitions()), (0, 0));
    let backlogs = bench.stores.notices.notice_backlogs().await.unwrap();
    let counted: Vec<_> = backlogs.iter().map(|backlog| (backlog.sink.as_str(), backlog.notices)).collect();
    assert_eq!(counted, [("gone", 40)]);
    let asked = gone.asked.load(Ordering::Relaxed);
    assert!((4..30).contains(&asked), "it was asked {asked} times in two minutes");
    back.store(true, Ordering::Relaxed);
    hears(&bench, &gone, &wanted).await;
    assert_eq!((gone.repetitions(), calm.repetitions()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn refused_notice_delays_no_other_subject() {
    let mut bench = WorkerBench::new();
    let pardoned = Arc::new(AtomicBool::new(false));
    let picky = Arc::new(ScriptedSink::who("picky", {
        let pardoned = pardoned.clone();
        move |events: &[CloudEvent]| {
            let is_bad = events.iter().any(|event| event.subject == "r-3");
            if is_bad && !pardoned.load(Ordering::Relaxed) { SinkMood::Refuse } else { SinkMood::Take }
        }
    }));
    bench.sinks = vec![picky.clone()];
    let _worker = bench.worker();
    let all = runs(&bench, 20, 2).await;
    eventually(IN_THE_END, || async {
        let heard = picky.heard().len();
        if heard == 38 { Ok(()) } else { Err(heard) }
    })
    .await;
    let asked = picky.asked.load(Ordering::Relaxed);
    wait(&bench, Duration::from_secs(60)).await;
    let again = picky.asked.load(Ordering::Relaxed) - asked;
    assert!((1..10).contains(&again), "it was asked {again} times in a minute");
    pardoned.store(true, Ordering::Relaxed);
    hears(&bench, &picky, &all).await;
    assert_eq!(picky.repetitions(), 0);
}

#[tokio::test(start_paused = true)]
async fn next_publisher_sends_remaining_notices() {
    let mut bench = WorkerBench::new();
    let roll = dice(4);
    let listener = Arc::new(ScriptedSink {
        load: SinkLoad { requests: 1, events: 3, bytes: 100_000 },
        ..ScriptedSink::who("sink", move |events| match roll(4) {
            0 => SinkMood::BreakAfter(usize::try_from(roll(events.len() as u64 + 1)).unwrap()),
            _ => SinkMood::Take,
        })
    });
    bench.sinks = vec![listener.clone()];
    let wanted = runs(&bench, 40, 5).await;
    let mut workers = vec![bench.worker_with(bench.hasty()), bench.worker_with(bench.hasty())];
    for round in 1..=4 {
        eventually(IN_THE_END, || async {
            let heard = listener.heard().len();
            if heard >= round * 40 { Ok(()) } else { Err(heard) }
        })
        .await;
        for worker in std::mem::take(&mut workers) {
            worker.kill().await;
        }
        workers.push(bench.worker_with(bench.hasty()));
        workers.push(bench.worker_with(bench.hasty()));
    }
    hears(&bench, &listener, &wanted).await;
}

#[tokio::test(start_paused = true)]
async fn unrecorded_notice_is_resent_with_same_id() {
    let mut bench = WorkerBench::new();
    let listener = Arc::new(ScriptedSink::who("sink", |_| SinkMood::Take));
    bench.sinks = vec![listener.clone()];
    let once = AtomicBool::new(true);
    let hook = faulty::on(ServiceFault::Unavailable, move |call| {
        matches!(call, FaultyCall::NoticesTold) && once.swap(false, Ordering::Relaxed)
    });
    nobody_left(&bench, "r", 2).await;
    let stores = faulty::stores(&bench.stores, &hook);
    let _worker = bench.worker_on(stores, bench.streams.clone(), bench.options());
    hears(&bench, &listener, &[("r".to_owned(), 2)].into()).await;
    assert_eq!(listener.repetitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn filtered_notices_cause_no_lag() {
    let mut bench = WorkerBench::new();
    let items = Arc::new(ScriptedSink {
        taste: SinkFilter::of_types(["item.*"]).unwrap(),
        ..ScriptedSink::who("items", |_| SinkMood::Take)
    });
    bench.sinks = vec![items.clone()];
    let _worker = bench.worker();
    runs(&bench, 5, 2).await;
    late_item(&bench, "i-1", ", escalate: {event: late}").await;
    late_item(&bench, "i-2", "").await;
    eventually(IN_THE_END, || async {
        let backlogs = bench.stores.notices.notice_backlogs().await.unwrap();
        if items.heard().len() == 2 && backlogs.is_empty() { Ok(()) } else { Err(backlogs) }
    })
    .await;
    let heard = items.heard();
    let kinds: Vec<_> = heard.iter().map(|event| (event.subject.as_str(), event.kind.as_str())).collect();
    assert_eq!(kinds, [("i-1", "millstream.item.escalated"), ("i-2", "millstream.item.failed")]);
    assert!(heard[0].data.as_str().contains(r#""event":"late""#), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn notices_without_sinks_are_dropped() {
    let mut bench = WorkerBench::new();
    let worker = bench.worker();
    runs(&bench, 3, 2).await;
    wait(&bench, Duration::from_secs(120)).await;
    assert_eq!(bench.stores.notices.spread_notices(&[], 99, bench.now()).await.unwrap(), 0);
    worker.drain().await;
    let late = Arc::new(ScriptedSink::who("late", |_| SinkMood::Take));
    bench.sinks = vec![late.clone()];
    let _worker = bench.worker();
    nobody_left(&bench, "after", 1).await;
    hears(&bench, &late, &[("after".to_owned(), 1)].into()).await;
}
