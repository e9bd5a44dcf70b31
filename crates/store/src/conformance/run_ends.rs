//! Effects of a run's end: the waiting action, and retention.

use millstream_core::claim::{Doing, Input, RunSpec, Status, WaitingAction};
use millstream_core::id::RunKey;
use millstream_core::status::{ActionStatus, EventStatus, Phase};

use super::Bench;
use super::device_fixture::{act, assign, completes, decide, run_key, run_of, spec, write};
use super::fixture::{HOUR, event, execution, grant, raw, tenant};
use super::settle::{settle, succeed_and_tell};
use super::visit::{Visit, ready, waiting};
use crate::action_store::{LeasedAction, SettleVerdict, Settlement, Settling};
use crate::housekeeping::Outlived;
use crate::run_store::{RunFilter, RunVerdict, RunWrite};

const COMPLETED: SettleVerdict = SettleVerdict::Recorded { event: EventStatus::Completed };

fn working() -> [Input; 3] {
    [assign("d1"), act("d1", 1, Doing::Accept), act("d1", 1, Doing::Start)]
}

fn waits(action: &LeasedAction) -> RunSpec {
    let lease = action.lease.clone();
    let waiting = WaitingAction { key: lease.key, epoch: lease.epoch, event_id: action.event_id };
    RunSpec { waiting: Some(waiting), ..spec() }
}

/// An action that waits for a run with this key.
async fn awaited(bench: &Bench, key: &RunKey) -> LeasedAction {
    let actions = [ready("a"), waiting("b", &["a"])];
    let (_, _, done) = bench.acting(&execution("e1"), &actions, grant(1)).await;
    let action = done.leased[0].clone();
    let outcome = Settling::Awaiting { until: None };
    let begun = Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome };
    settle(bench, vec![begun], grant(0)).await;
    bench.run_after(key, waits(&action), &working()).await;
    action
}

pub async fn the_end_of_a_run_settles_its_action_in_the_same_commit(bench: Bench) {
    let (key, of) = (run_key("r1"), execution("e1"));
    let (id, _, done) = bench.acting(&of, &[ready("a")], grant(1)).await;
    let action = &done.leased[0];
    bench.run_after(&key, waits(action), &working()).await;
    let told = event(&bench, &of, "rendered");
    let settlement = succeed_and_tell(action, told.clone());
    let verdict = bench.end_run(&key, &completes("d1", 1), settlement).await;
    assert_eq!(verdict, RunVerdict::Done { settled: vec![COMPLETED] });
    assert_eq!(bench.run(&key).await.run.status(), Status::Completed);
    assert_eq!(bench.action(&of, "a").await.status, ActionStatus::Succeeded);
    assert_eq!(bench.event(&of, id).await.status, EventStatus::Completed);
    assert_eq!(bench.mailbox(&of).await, [told.event_id]);
}

pub async fn what_waits_for_the_action_is_freed_and_counted(bench: Bench) {
    let key = run_key("r1");
    let action = awaited(&bench, &key).await;
    let seen = bench.run(&key).await;
    let now = bench.now().await;
    let change = decide(seen.run.clone(), &completes("d1", 1), now).unwrap().unwrap();
    let outcome = Settling::Succeeded { result: raw("1"), emit: None };
    let settlement = Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome };
    let unit = RunWrite { settlement: Some(settlement), ..write(&seen, change) }.into();
    let committed = bench.stores.runs.commit_runs(&[unit], now).await.unwrap();
    assert_eq!(committed.unleased, 1);
    assert_eq!(bench.action(&execution("e1"), "b").await.status, ActionStatus::Ready);
}

pub async fn a_unit_that_is_refused_settles_nothing(bench: Bench) {
    let (key, of) = (run_key("r1"), execution("e1"));
    let action = awaited(&bench, &key).await;
    let (seen, now) = (bench.run(&key).await, bench.now().await);
    let change = decide(seen.run.clone(), &completes("d1", 1), now).unwrap().unwrap();
    bench.step_run(&key, &Input::Pause).await;
    let settlement = succeed_and_tell(&action, event(&bench, &of, "rendered"));
    let late = RunWrite { settlement: Some(settlement), ..write(&seen, change) };
    assert!(matches!(bench.commit_units(&[late.into()]).await[0], RunVerdict::Conflict { .. }));
    assert_eq!(bench.action(&of, "a").await.status, ActionStatus::Awaiting);
    assert!(bench.mailbox(&of).await.is_empty());
}

pub async fn a_settlement_that_comes_too_late_does_not_keep_a_run_from_ending(bench: Bench) {
    let (key, of) = (run_key("r1"), execution("e1"));
    let action = awaited(&bench, &key).await;
    let state = bench.load(&of, None).await.state.unwrap().0;
    let cancel = bench.post(&of, "millstream.cancel").await;
    let now = bench.now().await;
    let visit = Visit::to(&of, &state, now).end(cancel, "received", Phase::Cancelled).cancel_open_actions();
    bench.commit_done(visit).await;
    let settlement = succeed_and_tell(&action, event(&bench, &of, "rendered"));
    let verdict = bench.end_run(&key, &completes("d1", 1), settlement).await;
    assert_eq!(verdict, RunVerdict::Done { settled: vec![SettleVerdict::Stale] });
    assert_eq!(bench.run(&key).await.run.status(), Status::Completed);
    assert!(bench.mailbox(&of).await.is_empty());
}

pub async fn runs_that_ended_long_ago_go_with_their_logs(bench: Bench) {
    let now = bench.now().await;
    let (long_ago, limit) = (now.minus(HOUR), now.minus(HOUR / 2));
    let done = [&working()[..], &[completes("d1", 1)]].concat();
    let failed = [Input::Cancel { reason: None }];
    bench.run_at(&run_key("done"), spec(), &done, long_ago).await;
    bench.run_at(&run_of("other", "done"), spec(), &done, long_ago).await;
    bench.run_at(&run_key("failed"), spec(), &failed, long_ago).await;
    bench.run_at(&run_key("fresh"), spec(), &done, now).await;
    bench.run_at(&run_key("open"), spec(), &working(), long_ago).await;
    let purge = async |outlived, limit| bench.stores.housekeeping.purge_runs(outlived, limit).await.unwrap();
    let kept = Outlived { completed: long_ago, failed: limit, cancelled: limit };
    assert_eq!(purge(kept, 9).await, 1, "each way to end has a time of its own");
    assert_eq!(purge(Outlived::before(limit), 1).await, 1, "no more than asked for");
    assert_eq!(purge(Outlived::before(limit), 9).await, 1);
    assert_eq!(purge(Outlived::before(limit), 9).await, 0);
    let views = &bench.stores.run_views;
    let left = views.list_runs(&tenant("acme"), &RunFilter::default(), None, 9).await.unwrap();
    let left: Vec<&str> = left.iter().map(|row| row.key.run.as_str()).collect();
    assert_eq!(left, ["open", "fresh"]);
    assert_eq!(views.run_log(&run_key("done"), 0, 9).await.unwrap(), []);
    assert_eq!(views.run_log(&run_key("open"), 0, 9).await.unwrap().len(), 5);
    bench.run_after(&run_key("done"), spec(), &[]).await;
}
