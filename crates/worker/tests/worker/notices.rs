//! Outbound notices of runs and items: whole workers, on paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_core::assignment::{self, NewItem, QueueConfig, QueueState, Setting};
use millstream_core::claim::{Input, Outlook, RunSpec, Stepped, create, step};
use millstream_core::definition::Format;
use millstream_core::id::{ItemId, ItemKey, Name, RunId, RunKey, TenantId, WorkerId};
use millstream_core::raw::RawJson;
use millstream_store::item_store::{ItemCommit, ItemRef};
use millstream_store::run_store::{Expected, RunVerdict, RunWrite};
use millstream_testkit::eventually;
use millstream_worker::outbound::{CloudEvent, Load, Taste};

use crate::bench::Bench;
use crate::faulty::{self, Call, Fault};
use crate::listener::{Listener, Mood, dice};

/// In real time; the workers' time is virtual.
const IN_THE_END: Duration = Duration::from_secs(90);
const LEFT: &str = "millstream.run.nobody_left";

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

async fn write(bench: &Bench, key: &RunKey, expected: Expected, change: millstream_core::claim::Change) {
    let (run, log, unheard) = (change.run, change.log, change.unheard);
    let write = RunWrite { key: key.clone(), expected, run, log, unheard, settlement: None };
    let committed = bench.stores.runs.commit_runs(&[write.into()], bench.now()).await.unwrap();
    assert!(matches!(committed.verdicts[0], RunVerdict::Done { .. }));
}

/// A run for which no device is left, `times` times, as an operator retries it.
async fn nobody_left(bench: &Bench, id: &str, times: usize) {
    let key = RunKey { tenant: TenantId::default_tenant(), run: RunId::parse(id).unwrap() };
    let mut spec = RunSpec::of(name("render"), RawJson::parse("1").unwrap());
    spec.settings.backoff.rounds = 0;
    write(bench, &key, Expected::Nothing, create(spec, None, bench.now())).await;
    let nobody = Input::NobodyViable { seat: 0, outlook: Outlook::Nobody, decision: None };
    for time in 0..times {
        let again = (time > 0).then_some(Input::Retry);
        for input in again.iter().chain([&nobody]) {
            let seen =
                bench.stores.runs.load_runs(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
            let Stepped::Changed(change) = step(seen.run, input, None, bench.now()).unwrap() else {
                panic!()
            };
            write(bench, &key, Expected::Version(seen.version), *change).await;
        }
    }
}

/// An item that was not done in time.
async fn late_item(bench: &Bench, id: &str, rest: &str) {
    let (tenant, now) = (TenantId::default_tenant(), bench.now());
    let queue = format!("{{name: review, due: 1s{rest}}}");
    let queue = QueueConfig::parse(&queue, Format::Yaml).unwrap();
    bench.stores.queues.put_queue(&tenant, &queue, now).await.unwrap();
    let item = ItemId::parse(id).unwrap();
    let new = NewItem::plain(item.clone(), RawJson::parse("1").unwrap());
    bench.stores.items.import(&tenant, &queue.name, &[new], now).await.unwrap();
    let key = ItemKey { tenant, item };
    let loaded = bench.stores.items.load_items(&[ItemRef::Item(key)]).await.unwrap().remove(0).unwrap();
    let late = now.plus(Duration::from_secs(5));
    let setting = Setting { queue: &queue, state: QueueState::Active, escalates_to: None };
    let stepped =
        assignment::step(&loaded.work, setting, &assignment::Input::Overdue, late).expect("it is late");
    let assignment::Stepped::Changed(change) = stepped else { panic!() };
    let commit = ItemCommit::of(&loaded, *change, None);
    bench.stores.items.commit_items(&WorkerId::nobody(), &[commit], late).await.unwrap();
}

/// This many runs, each left by all devices this many times.
async fn runs(bench: &Bench, runs: usize, times: usize) -> BTreeMap<String, usize> {
    let mut wanted = BTreeMap::new();
    for run in 0..runs {
        nobody_left(bench, &format!("r-{run}"), times).await;
        wanted.insert(format!("r-{run}"), times);
    }
    wanted
}

/// All notices arrive, each as often as it happened, in order, and none is left.
async fn hears(bench: &Bench, listener: &Listener, wanted: &BTreeMap<String, usize>) {
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

async fn wait(bench: &Bench, length: Duration) {
    let later = bench.now().plus(length);
    eventually(IN_THE_END, || async { if bench.now() >= later { Ok(()) } else { Err(bench.now()) } }).await;
}

#[tokio::test(start_paused = true)]
async fn every_notice_is_told_in_order_and_nothing_is_lost_whatever_a_sink_does() {
    for seed in [1, 2, 3] {
        let mut bench = Bench::new();
        let roll = dice(seed);
        let moody = Arc::new(Listener::who("moody", move |events| match roll(10) {
            0 => Mood::Refuse,
            1 => Mood::Away,
            2 => Mood::BreakAfter(usize::try_from(roll(events.len() as u64 + 1)).unwrap()),
            _ => Mood::Take,
        }));
        let calm = Arc::new(Listener::who("calm", |_| Mood::Take));
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
async fn a_sink_that_is_away_holds_up_nobody_and_hears_every_notice_when_it_is_back() {
    let mut bench = Bench::new();
    let back = Arc::new(AtomicBool::new(false));
    let gone = Arc::new(Listener::who("gone", {
        let back = back.clone();
        move |_| if back.load(Ordering::Relaxed) { Mood::Take } else { Mood::Away }
    }));
    let calm = Arc::new(Listener::who("calm", |_| Mood::Take));
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
async fn a_subject_that_is_refused_holds_up_no_other() {
    let mut bench = Bench::new();
    let pardoned = Arc::new(AtomicBool::new(false));
    let picky = Arc::new(Listener::who("picky", {
        let pardoned = pardoned.clone();
        move |events: &[CloudEvent]| {
            let is_bad = events.iter().any(|event| event.subject == "r-3");
            if is_bad && !pardoned.load(Ordering::Relaxed) { Mood::Refuse } else { Mood::Take }
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
async fn publishers_that_are_killed_are_followed_by_others_that_tell_the_rest() {
    let mut bench = Bench::new();
    let roll = dice(4);
    let listener = Arc::new(Listener {
        load: Load { requests: 1, events: 3, bytes: 100_000 },
        ..Listener::who("sink", move |events| match roll(4) {
            0 => Mood::BreakAfter(usize::try_from(roll(events.len() as u64 + 1)).unwrap()),
            _ => Mood::Take,
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
async fn what_was_told_and_could_not_be_recorded_is_told_again_by_the_same_id() {
    let mut bench = Bench::new();
    let listener = Arc::new(Listener::who("sink", |_| Mood::Take));
    bench.sinks = vec![listener.clone()];
    let once = AtomicBool::new(true);
    let hook = faulty::on(Fault::Unavailable, move |call| {
        matches!(call, Call::NoticesTold) && once.swap(false, Ordering::Relaxed)
    });
    nobody_left(&bench, "r", 2).await;
    let stores = faulty::stores(&bench.stores, &hook);
    let _worker = bench.worker_on(stores, bench.streams.clone(), bench.options());
    hears(&bench, &listener, &[("r".to_owned(), 2)].into()).await;
    assert_eq!(listener.repetitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_hears_of_what_it_wants_and_is_up_to_date_all_the_same() {
    let mut bench = Bench::new();
    let items = Arc::new(Listener {
        taste: Taste::of(["item.*"]).unwrap(),
        ..Listener::who("items", |_| Mood::Take)
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
async fn where_nobody_listens_notices_go_and_a_sink_hears_from_its_first_day_on() {
    let mut bench = Bench::new();
    let worker = bench.worker();
    runs(&bench, 3, 2).await;
    wait(&bench, Duration::from_secs(120)).await;
    assert_eq!(bench.stores.notices.spread_notices(&[], 99, bench.now()).await.unwrap(), 0);
    worker.drain().await;
    let late = Arc::new(Listener::who("late", |_| Mood::Take));
    bench.sinks = vec![late.clone()];
    let _worker = bench.worker();
    nobody_left(&bench, "after", 1).await;
    hears(&bench, &late, &[("after".to_owned(), 1)].into()).await;
}
