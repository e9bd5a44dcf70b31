//! Runs: versioned rows, and units of them.

use std::collections::BTreeSet;

use millstream_devices::claim::{
    CreatingDevice, DeviceAction, RunAssignMode, RunInput, RunSettings, RunSpec, SeatProgress, SeatState,
    SeatStatus, WaitingAction, create_run,
};
use millstream_model::id::{ActionKey, Epoch};
use millstream_store::run_store::{ExpectedVersion, RunFilter, RunUnit, RunVerdict, RunWrite};

use crate::ConformanceBench;
use crate::device_fixture::{
    act, assign, completes, decide, decided, device, new_write, run_key, run_of, self_claim, spec, write,
};
use crate::fixture::{HOUR, execution, name, tenant};

const DONE: RunVerdict = RunVerdict::Done { settled: Vec::new() };

pub async fn run_is_preserved_as_written(bench: ConformanceBench) {
    let now = bench.now().await;
    let waiting = WaitingAction {
        key: ActionKey {
            execution: execution("e1"),
            seq: millstream_model::id::Seq(2),
            action: name("render"),
        },
        epoch: Epoch(3),
        event_id: bench.event_id(),
    };
    let rich = RunSpec {
        requires: BTreeSet::from([name("gpu")]),
        prefer: BTreeSet::from([name("av1")]),
        priority: -7,
        preempt: true,
        prefer_coordinator: true,
        min_battery: Some(20),
        assign: RunAssignMode::Manual,
        devices: 3,
        settings: RunSettings { max_reassignments: 3, ..RunSettings::default() },
        creator: Some(CreatingDevice { device: device("d9"), willing: true }),
        waiting: Some(waiting),
        ..spec()
    };
    let progress =
        DeviceAction::Progress(SeatProgress { step: 1, total: 9, note: Some("schön".to_owned()) });
    let inputs = [
        assign("d1"),
        act("d1", 1, DeviceAction::Decline { reason: Some("\u{fffd} no".to_owned()) }),
        self_claim("d2"),
        act("d2", 2, DeviceAction::Start),
        act("d2", 2, progress),
        RunInput::Pause,
    ];
    let change = decided(create_run(rich, None, now), &inputs, now);
    let written = change.run.clone();
    assert_eq!(bench.commit_units(&[new_write(&run_key("r1"), change).into()]).await, [DONE]);
    let stored = bench.run(&run_key("r1")).await;
    assert_eq!((stored.run, stored.version, &stored.key), (written, 1, &run_key("r1")));
    let missing = bench.stores.runs.load_runs(&[run_key("r2"), run_key("r1")]).await.unwrap();
    assert!(missing[0].is_none() && missing[1].is_some());
}

pub async fn stale_run_version_is_refused(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let first = bench.run_after(&key, spec(), &[]).await;
    let claim = |by: &str| write(&first, decide(first.run.clone(), &self_claim(by), now).unwrap().unwrap());
    assert_eq!(bench.commit_units(&[claim("d1").into()]).await, [DONE]);
    let late = bench.commit_units(&[claim("d2").into()]).await.remove(0);
    let RunVerdict::Conflict { key: at, current: Some(current) } = late else { panic!("{late:?}") };
    assert_eq!((at, current.version), (key.clone(), 2));
    assert_eq!(current.run.seats[0].current_holding().unwrap().device, device("d1"));
    let ahead = RunWrite { expected: ExpectedVersion::Version(9), ..claim("d3") };
    assert!(matches!(bench.commit_units(&[ahead.into()]).await[0], RunVerdict::Conflict { .. }));
    let gone = RunWrite { key: run_key("gone"), ..claim("d3") };
    let verdict = bench.commit_units(&[gone.into()]).await.remove(0);
    assert_eq!(verdict, RunVerdict::Conflict { key: run_key("gone"), current: None });
    let log = bench.stores.run_views.run_log(&key, 0, 99).await.unwrap();
    assert_eq!(log.len(), 3, "create, self_claim, recorded");
}

pub async fn existing_run_is_not_recreated(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let first = bench.run_after(&key, spec(), &[]).await;
    let other = create_run(RunSpec { priority: 9, ..spec() }, None, now);
    let verdict = bench.commit_units(&[new_write(&key, other).into()]).await.remove(0);
    let RunVerdict::Conflict { current: Some(current), .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(*current, first);
}

pub async fn run_unit_is_all_or_nothing(bench: ConformanceBench) {
    let now = bench.now().await;
    let working = [assign("d1"), act("d1", 1, DeviceAction::Accept)];
    let victim = bench.run_after(&run_key("victim"), spec(), &working).await;
    let stale = bench.run_after(&run_key("stale"), spec(), &[]).await;
    bench.step_run(&run_key("stale"), &self_claim("d2")).await;
    let preempt = RunInput::Preempt { seat: 0, by: run_key("new").run, priority: 5 };
    let preempted = write(&victim, decide(victim.run.clone(), &preempt, now).unwrap().unwrap());
    let urgent = || decided(create_run(RunSpec { priority: 5, ..spec() }, None, now), &[assign("d1")], now);
    let late = write(&stale, decide(stale.run.clone(), &self_claim("d3"), now).unwrap().unwrap());
    let torn = RunUnit { writes: vec![preempted.clone(), new_write(&run_key("new"), urgent()), late] };
    let whole = RunUnit { writes: vec![preempted, new_write(&run_key("other"), urgent())] };
    let verdicts = bench.commit_units(&[torn, whole]).await;
    assert!(matches!(&verdicts[0], RunVerdict::Conflict { key, .. } if *key == run_key("stale")));
    assert_eq!(verdicts[1], DONE);
    let loaded = bench.stores.runs.load_runs(&[run_key("new"), run_key("other")]).await.unwrap();
    assert!(loaded[0].is_none() && loaded[1].is_some());
    let victim = bench.run(&run_key("victim")).await;
    assert_eq!((victim.version, victim.run.status()), (2, SeatStatus::Reassigning));
    assert_eq!(bench.stores.run_views.run_log(&run_key("new"), 0, 9).await.unwrap(), []);
}

pub async fn later_unit_sees_earlier_units(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let created = create_run(spec(), None, now);
    let claimed = decide(created.run.clone(), &self_claim("d1"), now).unwrap().unwrap();
    let late = decide(created.run.clone(), &self_claim("d2"), now).unwrap().unwrap();
    let second = |change| RunWrite { expected: ExpectedVersion::Version(1), ..new_write(&key, change) };
    let units = [new_write(&key, created).into(), second(claimed).into(), second(late).into()];
    let verdicts = bench.commit_units(&units).await;
    assert_eq!(verdicts[..2], [DONE, DONE]);
    assert!(matches!(&verdicts[2], RunVerdict::Conflict { current: Some(now), .. } if now.version == 2));
    let stored = bench.run(&key).await;
    assert_eq!((stored.version, stored.run.status()), (2, SeatStatus::Claimed));
    let log = bench.stores.run_views.run_log(&key, 0, 9).await.unwrap();
    let words: Vec<&str> = log.iter().map(|one| one.entry.word.as_str()).collect();
    assert_eq!(words, ["create", "self_claim", "recorded"]);
}

pub async fn unit_naming_run_twice_is_refused(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let write = new_write(&key, create_run(spec(), None, now));
    let verdicts = bench.commit_units(&[RunUnit { writes: vec![write.clone(), write] }]).await;
    assert_eq!(verdicts, [RunVerdict::Conflict { key, current: None }]);
}

pub async fn tenants_have_separate_runs(bench: ConformanceBench) {
    for owner in ["acme", "other"] {
        bench.run_after(&run_of(owner, "r1"), spec(), &[]).await;
    }
    bench.step_run(&run_key("r1"), &self_claim("d1")).await;
    assert_eq!(bench.run(&run_of("other", "r1")).await.run.status(), SeatStatus::Created);
    let listed =
        bench.stores.run_views.list_runs(&tenant("other"), &RunFilter::default(), None, 9).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(bench.stores.run_views.run_log(&run_of("other", "r1"), 0, 9).await.unwrap().len(), 1);
}

pub async fn due_runs_come_once_longest_first(bench: ConformanceBench) {
    let now = bench.now().await;
    let long_ago = now.minus(HOUR);
    let two = RunSpec { devices: 2, ..spec() };
    let second_seat = RunInput::Assign { seat: 1, device: device("d2"), decision: None };
    // Two seats that are due at different times, later than those of the run behind it.
    bench.run_at(&run_key("pair"), two, &[assign("d1"), second_seat], now.minus(HOUR / 2)).await;
    let working = [assign("d1"), act("d1", 1, DeviceAction::Accept), act("d1", 1, DeviceAction::Start)];
    bench.run_at(&run_of("other", "silent"), spec(), &working, long_ago).await;
    bench.run_at(&run_key("waiting"), spec(), &[], now.minus(HOUR / 4)).await;
    // None of these is due.
    bench.run_at(&run_key("fresh"), spec(), &working, now).await;
    bench
        .run_at(&run_key("by-hand"), RunSpec { assign: RunAssignMode::Manual, ..spec() }, &[], long_ago)
        .await;
    bench.run_at(&run_key("paused"), spec(), &[RunInput::Pause], long_ago).await;
    let done = [&working[..], &[completes("d1", 1)]].concat();
    bench.run_at(&run_key("done"), spec(), &done, long_ago).await;
    let due = bench.stores.runs.due_runs(now, 99).await.unwrap();
    assert_eq!(due, [run_of("other", "silent"), run_key("pair"), run_key("waiting")]);
    assert_eq!(bench.stores.runs.due_runs(now, 1).await.unwrap(), [run_of("other", "silent")]);
    let later = bench.stores.runs.due_runs(now.plus(HOUR), 99).await.unwrap();
    assert_eq!(later.len(), 4, "another one is due");
    let silent = bench.run(&run_of("other", "silent")).await;
    assert!(matches!(silent.run.seats[0].state, SeatState::Processing { .. }));
}
