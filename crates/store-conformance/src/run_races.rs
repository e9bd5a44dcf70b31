//! Races of two devices, or of a device and the deadline monitor: exactly one wins, and the log names it.

use millstream_devices::claim::{
    DeviceAction, RunInput, SeatStatus, SeatToken, create_run, outline_seats, replay_seats,
};
use millstream_model::id::RunKey;
use millstream_model::time::Timestamp;
use millstream_store::run_store::{RunUnit, RunVerdict, RunWrite, SeatHeartbeat, SeatPulse, StoredRun};

use crate::ConformanceBench;
use crate::device_fixture::{
    act, assign, completes, decide, decided, device, new_write, run_key, self_claim, spec, write,
};
use crate::fixture::HOUR;
use crate::work_races::at_once;

/// Rounds of each of three races; more than ten thousand in all with two backends.
const ROUNDS: usize = 1_700;
/// Runs created in one commit.
const BATCH: usize = 100;

/// Runs after these inputs, `BATCH` at a time.
async fn prepared(
    bench: &ConformanceBench,
    batch: usize,
    inputs: &[RunInput],
    at: Timestamp,
) -> Vec<StoredRun> {
    let keys: Vec<RunKey> = (0..BATCH).map(|number| run_key(&format!("r{batch}-{number}"))).collect();
    let change = decided(create_run(spec(), None, at), inputs, at);
    let units: Vec<RunUnit> = keys.iter().map(|key| new_write(key, change.clone()).into()).collect();
    bench.commit_units(&units).await;
    let runs = bench.stores.runs.load_runs(&keys).await.unwrap();
    runs.into_iter().map(|run| run.expect("it was written")).collect()
}

/// Both decide on the loaded state, and write concurrently; the loser loads and decides again. Returns which
/// of them succeeded.
async fn race(
    bench: &ConformanceBench,
    seen: &StoredRun,
    (one, other): (&RunInput, &RunInput),
    now: Timestamp,
) -> (bool, bool) {
    let attempt = |input: &RunInput| {
        let (bench, seen, input) = (bench.clone(), seen.clone(), input.clone());
        async move {
            let change = decide(seen.run.clone(), &input, now).unwrap().expect("it is news");
            match bench.commit_units(&[write(&seen, change).into()]).await.remove(0) {
                RunVerdict::Done { .. } => true,
                RunVerdict::Conflict { current, .. } => {
                    let current = current.expect("it is there");
                    assert!(current.version > seen.version);
                    assert!(decide(current.run, &input, now).is_err(), "it is refused then: {input:?}");
                    false
                }
            }
        }
    };
    at_once(attempt(one), attempt(other)).await
}

async fn check_log(bench: &ConformanceBench, run: &StoredRun) {
    let log = bench.stores.run_views.run_log(&run.key, 0, 99).await.unwrap();
    assert_eq!(replay_seats(log.iter().map(|one| &one.entry)), outline_seats(&run.run), "{log:?}");
}

pub async fn seat_claim_race_has_one_winner(bench: ConformanceBench) {
    let now = bench.now().await;
    let (d1, d2) = (self_claim("d1"), self_claim("d2"));
    for batch in 0..ROUNDS / BATCH {
        for seen in prepared(&bench, batch, &[], now).await {
            let (first, second) = race(&bench, &seen, (&d1, &d2), now).await;
            assert_ne!(first, second, "{}", seen.key);
            let run = bench.run(&seen.key).await;
            let held = run.run.seats[0].current_holding().unwrap();
            let winner = device(if first { "d1" } else { "d2" });
            assert_eq!((&held.device, held.token, run.version), (&winner, SeatToken(1), 2), "{}", seen.key);
            check_log(&bench, &run).await;
        }
    }
}

pub async fn completion_and_reassignment_exclude_each_other(bench: ConformanceBench) {
    let now = bench.now().await;
    let working = [assign("d1"), act("d1", 1, DeviceAction::Accept), act("d1", 1, DeviceAction::Start)];
    let (done, silent) = (completes("d1", 1), RunInput::HeartbeatTimeout { seat: 0 });
    for batch in 0..ROUNDS / BATCH {
        for seen in prepared(&bench, batch, &working, now.minus(HOUR)).await {
            let (completed, reassigned) = race(&bench, &seen, (&done, &silent), now).await;
            assert_ne!(completed, reassigned, "{}", seen.key);
            let run = bench.run(&seen.key).await;
            let expected = if completed { SeatStatus::Completed } else { SeatStatus::Reassigning };
            assert_eq!((run.run.status(), run.version), (expected, 2), "{}", seen.key);
            check_log(&bench, &run).await;
        }
    }
}

pub async fn acceptance_and_timeout_exclude_each_other(bench: ConformanceBench) {
    let now = bench.now().await;
    let (accept, timeout) = (act("d1", 1, DeviceAction::Accept), RunInput::AssignmentTimeout { seat: 0 });
    for batch in 0..ROUNDS / BATCH {
        for seen in prepared(&bench, batch, &[assign("d1")], now.minus(HOUR)).await {
            let (accepted, timed_out) = race(&bench, &seen, (&accept, &timeout), now).await;
            assert_ne!(accepted, timed_out, "{}", seen.key);
            let run = bench.run(&seen.key).await;
            let expected = if accepted { SeatStatus::Claimed } else { SeatStatus::Reassigning };
            assert_eq!((run.run.status(), run.version), (expected, 2), "{}", seen.key);
            check_log(&bench, &run).await;
        }
    }
}

pub async fn heartbeat_and_timeout_exclude_each_other(bench: ConformanceBench) {
    let now = bench.now().await;
    let working = [assign("d1"), act("d1", 1, DeviceAction::Accept), act("d1", 1, DeviceAction::Start)];
    let silent = RunInput::HeartbeatTimeout { seat: 0 };
    for seen in prepared(&bench, 0, &working, now.minus(HOUR)).await {
        let beats = [SeatHeartbeat {
            run: seen.key.clone(),
            seat: 0,
            device: device("d1"),
            token: SeatToken(1),
            progress: None,
        }];
        let (beating, losing) = (bench.clone(), bench.clone());
        let lost = write(&seen, decide(seen.run.clone(), &silent, now).unwrap().unwrap());
        let (pulse, verdict) = at_once(
            async move { beating.stores.runs.record_seat_heartbeats(&beats, now).await.unwrap().remove(0) },
            async move { losing.commit_units(&[lost.into()]).await.remove(0) },
        )
        .await;
        match (pulse, &verdict) {
            (SeatPulse::Held { .. }, RunVerdict::Conflict { .. })
            | (SeatPulse::Lost, RunVerdict::Done { .. }) => {}
            (SeatPulse::Held { .. }, RunVerdict::Done { .. })
            | (SeatPulse::Lost, RunVerdict::Conflict { .. }) => {
                panic!("{}: {pulse:?}, {verdict:?}", seen.key)
            }
        }
    }
}

pub async fn concurrent_creations_make_one_run(bench: ConformanceBench) {
    let now = bench.now().await;
    for round in 0..40 {
        let key = run_key(&format!("r{round}"));
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (bench, unit) = (bench.clone(), new_write(&key, create_run(spec(), None, now)).into());
                tokio::spawn(async move { bench.commit_units(&[unit]).await.remove(0) })
            })
            .collect();
        let mut created = 0;
        for task in tasks {
            match task.await.unwrap() {
                RunVerdict::Done { .. } => created += 1,
                RunVerdict::Conflict { current, .. } => assert_eq!(current.unwrap().version, 1),
            }
        }
        assert_eq!(created, 1, "round {round}");
        assert_eq!(bench.stores.run_views.run_log(&key, 0, 9).await.unwrap().len(), 1, "round {round}");
    }
}

pub async fn crossed_run_units_surface_no_deadlock(bench: ConformanceBench) {
    let now = bench.now().await;
    for (round, pair) in prepared(&bench, 0, &[], now).await.chunks(2).enumerate() {
        let claim = |seen: &StoredRun, by: &str| -> RunWrite {
            write(seen, decide(seen.run.clone(), &self_claim(by), now).unwrap().unwrap())
        };
        let forth = RunUnit { writes: pair.iter().map(|seen| claim(seen, "d1")).collect() };
        let back = RunUnit { writes: pair.iter().rev().map(|seen| claim(seen, "d2")).collect() };
        let [forth, back] = [forth, back].map(|unit| {
            let bench = bench.clone();
            async move { bench.commit_units(&[unit]).await.remove(0) }
        });
        let (forth, back) = at_once(forth, back).await;
        let done = |verdict: &RunVerdict| matches!(verdict, RunVerdict::Done { .. });
        assert_ne!(done(&forth), done(&back), "round {round}");
        let keys: Vec<RunKey> = pair.iter().map(|seen| seen.key.clone()).collect();
        let runs = bench.stores.runs.load_runs(&keys).await.unwrap();
        let holders: Vec<_> = runs
            .iter()
            .flatten()
            .map(|run| run.run.seats[0].current_holding().unwrap().device.clone())
            .collect();
        assert_eq!(holders[0], holders[1], "one has both: round {round}");
    }
}
