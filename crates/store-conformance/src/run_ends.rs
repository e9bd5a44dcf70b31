//! Effects of a run's end: the waiting action, and retention.

use millstream_devices::claim::{DeviceAction, RunInput, RunSpec, SeatStatus, WaitingAction};
use millstream_model::id::RunKey;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_store::action_store::{LeasedAction, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_store::run_store::{RunFilter, RunVerdict, RunWrite};

use crate::ConformanceBench;
use crate::commit_builder::{ConformanceVisit, ready, waiting};
use crate::device_fixture::{act, assign, completes, decide, run_key, run_of, spec, write};
use crate::fixture::{HOUR, event, execution, grant, raw, tenant};
use crate::settle::{settle, succeed_and_tell};

const COMPLETED: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Completed };

fn working() -> [RunInput; 3] {
    [assign("d1"), act("d1", 1, DeviceAction::Accept), act("d1", 1, DeviceAction::Start)]
}

fn waits(action: &LeasedAction) -> RunSpec {
    let lease = action.lease.clone();
    let waiting = WaitingAction { key: lease.key, epoch: lease.epoch, event_id: action.event_id };
    RunSpec { waiting: Some(waiting), ..spec() }
}

/// An action that waits for a run with this key.
async fn awaited(bench: &ConformanceBench, key: &RunKey) -> LeasedAction {
    let actions = [ready("a"), waiting("b", &["a"])];
    let (_, _, done) = bench.acting(&execution("e1"), &actions, grant(1)).await;
    let action = done.leased[0].clone();
    let outcome = SettleOutcome::Awaiting { until: None };
    let begun = Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome };
    settle(bench, vec![begun], grant(0)).await;
    bench.run_after(key, waits(&action), &working()).await;
    action
}

pub async fn run_end_settles_action_in_commit(bench: ConformanceBench) {
    let (key, of) = (run_key("r1"), execution("e1"));
    let (id, _, done) = bench.acting(&of, &[ready("a")], grant(1)).await;
    let action = &done.leased[0];
    bench.run_after(&key, waits(action), &working()).await;
    let told = event(&bench, &of, "rendered");
    let settlement = succeed_and_tell(action, told.clone());
    let verdict = bench.end_run(&key, &completes("d1", 1), settlement).await;
    assert_eq!(verdict, RunVerdict::Done { settled: vec![COMPLETED] });
    assert_eq!(bench.run(&key).await.run.status(), SeatStatus::Completed);
    assert_eq!(bench.action(&of, "a").await.status, ActionStatus::Succeeded);
    assert_eq!(bench.event(&of, id).await.status, EventStatus::Completed);
    assert_eq!(bench.mailbox(&of).await, [told.event_id]);
}

pub async fn run_end_frees_dependents_of_action(bench: ConformanceBench) {
    let key = run_key("r1");
    let action = awaited(&bench, &key).await;
    let seen = bench.run(&key).await;
    let now = bench.now().await;
    let change = decide(seen.run.clone(), &completes("d1", 1), now).unwrap().unwrap();
    let outcome = SettleOutcome::Succeeded { result: raw("1"), emit: None };
    let settlement = Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome };
    let unit = RunWrite { settlement: Some(settlement), ..write(&seen, change) }.into();
    let committed = bench.stores.runs.commit_runs(&[unit], now).await.unwrap();
    assert_eq!(committed.unleased, 1);
    assert_eq!(bench.action(&execution("e1"), "b").await.status, ActionStatus::Ready);
}

pub async fn refused_unit_settles_nothing(bench: ConformanceBench) {
    let (key, of) = (run_key("r1"), execution("e1"));
    let action = awaited(&bench, &key).await;
    let (seen, now) = (bench.run(&key).await, bench.now().await);
    let change = decide(seen.run.clone(), &completes("d1", 1), now).unwrap().unwrap();
    bench.step_run(&key, &RunInput::Pause).await;
    let settlement = succeed_and_tell(&action, event(&bench, &of, "rendered"));
    let late = RunWrite { settlement: Some(settlement), ..write(&seen, change) };
    assert!(matches!(bench.commit_units(&[late.into()]).await[0], RunVerdict::Conflict { .. }));
    assert_eq!(bench.action(&of, "a").await.status, ActionStatus::Awaiting);
    assert!(bench.mailbox(&of).await.is_empty());
}

pub async fn late_settlement_does_not_block_run_end(bench: ConformanceBench) {
    let (key, of) = (run_key("r1"), execution("e1"));
    let action = awaited(&bench, &key).await;
    let state = bench.load(&of, None).await.state.unwrap().0;
    let cancel = bench.post(&of, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = ConformanceVisit::to(&of, &state, now)
        .end(cancel, "received", ExecutionPhase::Cancelled)
        .cancel_open_actions();
    bench.commit_done(visit).await;
    let settlement = succeed_and_tell(&action, event(&bench, &of, "rendered"));
    let verdict = bench.end_run(&key, &completes("d1", 1), settlement).await;
    assert_eq!(verdict, RunVerdict::Done { settled: vec![SettleVerdict::Stale] });
    assert_eq!(bench.run(&key).await.run.status(), SeatStatus::Completed);
    assert!(bench.mailbox(&of).await.is_empty());
}

pub async fn old_ended_runs_are_purged_with_logs(bench: ConformanceBench) {
    let now = bench.now().await;
    let (long_ago, limit) = (now.minus(HOUR), now.minus(HOUR / 2));
    let done = [&working()[..], &[completes("d1", 1)]].concat();
    let failed = [RunInput::Cancel { reason: None }];
    bench.run_at(&run_key("done"), spec(), &done, long_ago).await;
    bench.run_at(&run_of("other", "done"), spec(), &done, long_ago).await;
    bench.run_at(&run_key("failed"), spec(), &failed, long_ago).await;
    bench.run_at(&run_key("fresh"), spec(), &done, now).await;
    bench.run_at(&run_key("open"), spec(), &working(), long_ago).await;
    let purge = async |outlived, limit| bench.stores.housekeeping.purge_runs(outlived, limit).await.unwrap();
    let kept = RetentionCutoffs { completed: long_ago, failed: limit, cancelled: limit };
    assert_eq!(purge(kept, 9).await, 1, "each way to end has a time of its own");
    assert_eq!(purge(RetentionCutoffs::uniform(limit), 1).await, 1, "no more than asked for");
    assert_eq!(purge(RetentionCutoffs::uniform(limit), 9).await, 1);
    assert_eq!(purge(RetentionCutoffs::uniform(limit), 9).await, 0);
    let views = &bench.stores.run_views;
    let left = views.list_runs(&tenant("acme"), &RunFilter::default(), None, 9).await.unwrap();
    let left: Vec<&str> = left.iter().map(|row| row.key.run.as_str()).collect();
    assert_eq!(left, ["open", "fresh"]);
    assert_eq!(views.run_log(&run_key("done"), 0, 9).await.unwrap(), []);
    assert_eq!(views.run_log(&run_key("open"), 0, 9).await.unwrap().len(), 5);
    bench.run_after(&run_key("done"), spec(), &[]).await;
}
