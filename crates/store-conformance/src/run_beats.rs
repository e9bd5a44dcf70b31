//! Heartbeats of devices: cheap, and never reverted.

use std::time::Duration;

use millstream_devices::claim::{DeviceAction, RunInput, SeatProgress, SeatStatus, SeatToken};
use millstream_model::id::RunKey;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::run_store::{RunVerdict, SeatHeartbeat, SeatPulse};

use crate::ConformanceBench;
use crate::device_fixture::{act, assign, completes, decide, device, run_key, spec, write};
use crate::fixture::HOUR;

const SILENCE: Duration = Duration::from_secs(90);

fn beat(run: &RunKey, by: &str, token: i64) -> SeatHeartbeat {
    SeatHeartbeat { run: run.clone(), seat: 0, device: device(by), token: SeatToken(token), progress: None }
}

fn progress(step: u64) -> SeatProgress {
    SeatProgress { step, total: 9, note: None }
}

fn working() -> [RunInput; 3] {
    [assign("d1"), act("d1", 1, DeviceAction::Accept), act("d1", 1, DeviceAction::Start)]
}

async fn beats(bench: &ConformanceBench, beats: &[SeatHeartbeat], now: Timestamp) -> Vec<SeatPulse> {
    bench.stores.runs.record_seat_heartbeats(beats, now).await.unwrap()
}

pub async fn seat_heartbeat_raises_no_version(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let before = bench.run_at(&key, spec(), &working(), now.minus(HOUR)).await;
    assert_eq!(bench.stores.runs.due_runs(now, 9).await.unwrap(), [key.clone()]);
    let held = SeatPulse::Held { until: now.plus(SILENCE), pause: PauseState::Running };
    let twice = [beat(&key, "d1", 1), beat(&key, "d1", 1)];
    assert_eq!(beats(&bench, &twice, now).await, [held, held]);
    let after = bench.run(&key).await;
    assert_eq!((after.version, after.run.seats[0].heard_at()), (before.version, Some(now)));
    assert_eq!(bench.stores.runs.due_runs(now, 9).await.unwrap(), []);
    beats(&bench, &twice, now.minus(HOUR)).await;
    assert_eq!(bench.run(&key).await.run.seats[0].heard_at(), Some(now), "it does not go back");
    // A claim that has not begun must begin in time, whatever its heartbeats.
    let (claimed, from) = (run_key("claimed"), now.minus(Duration::from_secs(295)));
    bench.run_at(&claimed, spec(), &working()[..2], from).await;
    let pulse = beats(&bench, &[beat(&claimed, "d1", 1)], now).await.remove(0);
    let until = now.plus(Duration::from_secs(5));
    assert_eq!(pulse, SeatPulse::Held { until, pause: PauseState::Running });
    assert_eq!(beats(&bench, &[], now).await, []);
}

pub async fn heartbeat_without_claim_is_lost(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    bench.run_at(&key, spec(), &working(), now).await;
    bench.run_after(&run_key("asked"), spec(), &working()[..1]).await;
    let ended = [&working()[..], &[completes("d1", 1)]].concat();
    bench.run_after(&run_key("ended"), spec(), &ended).await;
    let wrong = [
        beat(&key, "d1", 2),
        beat(&key, "d2", 1),
        SeatHeartbeat { seat: 1, ..beat(&key, "d1", 1) },
        beat(&run_key("nothing"), "d1", 1),
        beat(&run_key("asked"), "d1", 1),
        beat(&run_key("ended"), "d1", 1),
    ];
    assert_eq!(beats(&bench, &wrong, now.plus(HOUR)).await, [SeatPulse::Lost; 6]);
    assert_eq!(bench.run(&key).await.run.seats[0].heard_at(), Some(now));
    let mixed = [wrong[0].clone(), beat(&key, "d1", 1)];
    assert!(matches!(beats(&bench, &mixed, now).await[..], [SeatPulse::Lost, SeatPulse::Held { .. }]));
}

pub async fn heartbeat_progress_is_stored_while_processing(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    bench.run_at(&key, spec(), &working()[..2], now).await;
    let told = |step| SeatHeartbeat { progress: Some(progress(step)), ..beat(&key, "d1", 1) };
    assert_eq!(beats(&bench, &[told(1)], now).await, [SeatPulse::Lost], "it has not begun");
    let seen = bench.run(&key).await;
    let begun = decide(seen.run.clone(), &working()[2], now).unwrap().unwrap();
    bench.commit_units(&[write(&seen, begun).into()]).await;
    // Also at the same time as the last commit.
    assert!(matches!(beats(&bench, &[told(1)], now).await[..], [SeatPulse::Held { .. }]));
    assert_eq!(bench.run(&key).await.run.seats[0].progress, Some(progress(1)));
    beats(&bench, &[beat(&key, "d1", 1)], now.plus(SILENCE)).await;
    assert_eq!(bench.run(&key).await.run.seats[0].progress, Some(progress(1)), "it stays");
    let released = bench.step_run(&key, &act("d1", 1, DeviceAction::Release { reason: None })).await;
    assert_eq!(released.run.seats[0].previous[0].progress, Some(progress(1)));
    assert_eq!(released.run.seats[0].progress, Some(progress(1)), "for the next one");
}

pub async fn heartbeat_answers_whether_run_is_paused(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    bench.run_at(&key, spec(), &working()[..2], now).await;
    bench.step_run(&key, &RunInput::Pause).await;
    let pulse = beats(&bench, &[beat(&key, "d1", 1)], now.plus(HOUR)).await.remove(0);
    let until = now.plus(HOUR).plus(SILENCE);
    assert_eq!(pulse, SeatPulse::Held { until, pause: PauseState::Paused }, "the time to begin stands still");
}

pub async fn older_commit_keeps_later_heartbeats(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let seen = bench.run_at(&key, spec(), &working(), now.minus(HOUR)).await;
    let paused = decide(seen.run.clone(), &RunInput::Pause, now).unwrap().unwrap();
    let told = SeatHeartbeat { progress: Some(progress(4)), ..beat(&key, "d1", 1) };
    beats(&bench, &[told], now).await;
    let verdicts = bench.commit_units(&[write(&seen, paused).into()]).await;
    assert_eq!(verdicts, [RunVerdict::Done { settled: Vec::new() }]);
    let after = bench.run(&key).await;
    assert_eq!(
        (after.run.seats[0].heard_at(), after.run.seats[0].progress.clone()),
        (Some(now), Some(progress(4)))
    );
    assert_eq!(bench.stores.runs.due_runs(now, 9).await.unwrap(), []);
}

pub async fn heartbeat_invalidates_silence_based_commit(bench: ConformanceBench) {
    let (key, now) = (run_key("r1"), bench.now().await);
    let seen = bench.run_at(&key, spec(), &working(), now.minus(HOUR)).await;
    let timeout = RunInput::HeartbeatTimeout { seat: 0 };
    let lost = write(&seen, decide(seen.run.clone(), &timeout, now).unwrap().unwrap());
    beats(&bench, &[beat(&key, "d1", 1)], now).await;
    let verdict = bench.commit_units(&[lost.into()]).await.remove(0);
    let RunVerdict::Conflict { current: Some(current), .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!((current.version, current.run.status()), (1, SeatStatus::Processing));
    assert_eq!(current.run.seats[0].heard_at(), Some(now));
    assert!(decide(current.run, &timeout, now).is_err(), "and now it is not due any more");
    // No heartbeat arrives: the silence counts.
    let later = now.plus(HOUR);
    let verdict = bench.try_run(&key, &timeout, later).await;
    assert_eq!(verdict, Some(RunVerdict::Done { settled: Vec::new() }));
}
