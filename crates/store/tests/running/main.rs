//! The run service, batched: one read, one commit, each command on the result of those before it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their fixtures")]

mod run_environment;

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_devices::claim::{
    DeviceAction, RunInput, RunOutcome, RunRecord, RunRefusalReason, RunSpec, RunStepOutcome, SeatLossReason,
    SeatStatus, WaitingAction, step_run,
};
use millstream_model::id::{ActionKey, Epoch, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId};
use millstream_model::raw::RawJson;
use millstream_store::StoreError;
use millstream_store::run_service::{
    CreateRunReply, RunEnvironment, RunOperation, RunOperationReply, RunReply,
};
use millstream_store::run_store::{ExpectedVersion, RunUnit, RunWrite};

use run_environment::{RunShell, ask, device, does, holders, key, new, spec};

fn done(acted: &RunOperationReply) -> &RunRecord {
    let RunOperationReply::Done { run, .. } = acted else { panic!("{acted:?}") };
    run
}

#[tokio::test]
async fn batched_run_creations_see_earlier_assignments() {
    let shell = RunShell::with_devices(4).await;
    let orders: Vec<_> = (0..5).map(|number| new(&format!("r{number}"), spec())).collect();
    let runs = shell.created(&orders).await;
    let to: BTreeSet<_> = runs.iter().filter_map(|run| holders(run).remove(0)).collect();
    assert_eq!(to.len(), 4, "each device takes one");
    assert_eq!(
        runs.iter().filter(|run| run.status() == SeatStatus::Reassigning).count(),
        1,
        "one has to wait"
    );
    assert_eq!(shell.counted.take(), (0, 1, 1));
    let tally = shell.tally.lock().unwrap().clone();
    assert_eq!((tally.created, tally.assigned), (5, 4));
}

#[tokio::test]
async fn cached_roster_avoids_device_reads() {
    let shell = RunShell::with_devices(9).await;
    shell.created(&[new("r1", spec())]).await;
    shell.created(&[new("r2", spec()), new("r3", spec())]).await;
    assert_eq!(shell.counted.take(), (0, 2, 1));
    let taken: BTreeSet<_> = [shell.run("r1").await, shell.run("r2").await, shell.run("r3").await]
        .iter()
        .filter_map(|run| holders(run).remove(0))
        .collect();
    assert_eq!(taken.len(), 3, "earlier assignments count");
    shell.counted.take();
    shell.pass(Duration::from_secs(1));
    shell.created(&[new("r4", spec())]).await;
    assert_eq!(shell.counted.take(), (0, 1, 1), "after a second they are");
}

#[tokio::test]
async fn stale_roster_neither_chooses_nor_misses_devices() {
    let shell = RunShell::with_devices(2).await;
    shell.created(&[new("r1", spec())]).await;
    let first = holders(&shell.run("r1").await).remove(0).unwrap();
    let other = if first == "d0" { "d1" } else { "d0" };
    let left = millstream_model::id::DeviceKey { tenant: TenantId::default_tenant(), device: device(other) };
    shell.stores().devices.remove_devices(&[left]).await.unwrap();
    shell.register("new", Some(1)).await;
    let run = shell.created(&[new("r2", spec())]).await.remove(0);
    assert_eq!(holders(&run), [Some("new".to_owned())]);
}

#[tokio::test]
async fn device_busy_elsewhere_keeps_its_capacity() {
    let (here, elsewhere) = (RunShell::with_devices(2).await, RunShell::new());
    here.created(&[new("r1", spec())]).await;
    // The other process writes into the same store.
    let elsewhere = elsewhere.beside(&here);
    elsewhere.created(&[new("r2", spec())]).await;
    let run = here.created(&[new("r3", spec())]).await.remove(0);
    assert_eq!((run.status(), holders(&run)), (SeatStatus::Reassigning, vec![None]));
}

#[tokio::test]
async fn repeated_run_creation_returns_existing_run() {
    let shell = RunShell::with_devices(3).await;
    let answers = shell.perform(&[new("r1", spec()), new("r1", spec()), new("r2", spec())]).await;
    assert!(matches!(answers[0], Ok(RunReply::Created(CreateRunReply::New(_)))));
    let Ok(RunReply::Created(CreateRunReply::Exists(stored))) = &answers[1] else { panic!("{answers:?}") };
    assert!(stored.run.asks_for(&spec()));
    assert!(matches!(answers[2], Ok(RunReply::Created(CreateRunReply::New(_)))));
}

#[tokio::test]
async fn self_claim_race_has_one_winner() {
    let shell = RunShell::with_devices(8).await;
    let by_hand = RunSpec { assign: millstream_devices::claim::RunAssignMode::Manual, ..spec() };
    shell.created(&[new("r1", by_hand)]).await;
    shell.counted.take();
    let take = |number| ask("r1", RunOperation::Take { device: device(&format!("d{number}")), seat: None });
    let acted = shell.acted(&(0..8).map(take).collect::<Vec<_>>()).await;
    assert_eq!(shell.counted.take(), (1, 1, 0), "one read, one commit");
    assert_eq!(done(&acted[0]).status(), SeatStatus::Claimed);
    for loser in &acted[1..] {
        let RunOperationReply::Refused(refusal) = loser else { panic!("{loser:?}") };
        assert_eq!(refusal.holder.as_ref().unwrap().device, device("d0"));
    }
    let unknown =
        shell.acted(&[ask("r1", RunOperation::Take { device: device("missing"), seat: None })]).await;
    assert!(matches!(unknown[0], RunOperationReply::NoSuchDevice));
}

#[tokio::test]
async fn seats_of_run_change_in_one_commit() {
    let shell = RunShell::with_devices(3).await;
    let run = shell.created(&[new("r1", RunSpec { devices: 3, ..spec() })]).await.remove(0);
    let mut orders = Vec::new();
    for doing in
        [DeviceAction::Accept, DeviceAction::Start, DeviceAction::Complete { output: RawJson::null() }]
    {
        for (number, seat) in run.numbered_seats() {
            let held = seat.current_holding().unwrap();
            orders.push(does("r1", held.device.as_str(), number, held.token.0, doing.clone()));
        }
    }
    shell.counted.take();
    let acted = shell.acted(&orders).await;
    assert_eq!(shell.counted.take(), (1, 1, 0));
    assert_eq!(
        done(&acted[0]).seats[1].status(),
        SeatStatus::Assigned,
        "each sees the result of the one before"
    );
    assert_eq!(done(&acted[8]).status(), SeatStatus::Completed);
    assert_eq!(shell.run("r1").await.status(), SeatStatus::Completed);
}

#[tokio::test]
async fn lower_priority_run_gives_way_in_unit() {
    let shell = RunShell::with_devices(1).await;
    let low = shell.created(&[new("low", spec())]).await.remove(0);
    let token = low.seats[0].current_holding().unwrap().token.0;
    shell.acted(&[does("low", "d0", 0, token, DeviceAction::Accept)]).await;
    let urgent = RunSpec { priority: 9, preempt: true, ..spec() };
    let high = shell.created(&[new("high", urgent.clone()), new("late", urgent)]).await;
    assert_eq!(holders(&high[0]), [Some("d0".to_owned())]);
    assert_eq!(holders(&high[1]), [None], "equal priorities do not preempt each other");
    let low = shell.run("low").await;
    assert_eq!(
        (low.status(), low.seats[0].previous[0].reason),
        (SeatStatus::Reassigning, SeatLossReason::Preempted)
    );
    let late = shell.acted(&[does("low", "d0", 0, token, DeviceAction::Start)]).await.remove(0);
    assert!(
        matches!(late, RunOperationReply::Refused(refusal) if refusal.why == RunRefusalReason::StaleToken)
    );
}

#[tokio::test]
async fn due_runs_are_one_batch() {
    let shell = RunShell::with_devices(3).await;
    let names = ["unanswered", "unbegun", "silent"];
    let runs = shell.created(&names.map(|name| new(name, spec()))).await;
    let of = |at: usize| runs[at].seats[0].current_holding().unwrap().clone();
    let accept = |at: usize| does(names[at], of(at).device.as_str(), 0, of(at).token.0, DeviceAction::Accept);
    shell.acted(&[accept(1), accept(2)]).await;
    shell.acted(&[does("silent", of(2).device.as_str(), 0, of(2).token.0, DeviceAction::Start)]).await;
    let waiting = shell.created(&[new("resting", spec())]).await.remove(0);
    assert_eq!(waiting.status(), SeatStatus::Reassigning, "all are busy");
    let heard = millstream_store::run_store::SeatHeartbeat {
        run: key("unbegun"),
        seat: 0,
        device: of(1).device,
        token: of(1).token,
        progress: None,
    };
    shell.pass(Duration::from_secs(250));
    shell.stores().runs.record_seat_heartbeats(std::slice::from_ref(&heard), shell.now()).await.unwrap();
    shell.pass(Duration::from_secs(60));
    for number in 0..3 {
        shell.register(&format!("d{number}"), Some(1)).await;
    }
    let due = shell.stores().runs.due_runs(shell.now(), 100).await.unwrap();
    assert_eq!(due.len(), 4);
    shell.counted.take();
    let orders: Vec<_> = due.iter().map(|key| ask(key.run.as_str(), RunOperation::Due)).collect();
    let acted = shell.acted(&orders).await;
    assert_eq!(shell.counted.take(), (1, 1, 1), "one read of the runs, one of the devices, one commit");
    assert!(acted.iter().all(|acted| matches!(acted, RunOperationReply::Done { .. })));
    let mut reasons = Vec::new();
    for name in names {
        reasons.push(shell.run(name).await.seats[0].previous[0].reason);
    }
    assert_eq!(reasons, [SeatLossReason::Timeout, SeatLossReason::Timeout, SeatLossReason::Heartbeat]);
    let mut holding = Vec::new();
    for name in ["unanswered", "unbegun", "silent", "resting"] {
        holding.extend(holders(&shell.run(name).await).remove(0));
    }
    let distinct: BTreeSet<_> = holding.iter().collect();
    assert_eq!((distinct.len(), holding.len()), (3, 3), "each lost seat is reassigned, one per device");
    let again = shell.acted(&orders[..1]).await;
    assert!(matches!(again[0], RunOperationReply::Done { .. }), "nothing is due any more");
    assert_eq!(shell.counted.take().1, 0, "and nothing is written");
}

/// Pauses or resumes the run `times` times, each just before a commit.
fn rival(shell: &RunShell, times: usize, stored: RunRecord) {
    let (mut left, mut version, mut run) = (times, 1, stored);
    let now = shell.now();
    *shell.counted.rival.lock().unwrap() = Some(Box::new(move |unit: &RunUnit| {
        if left == 0 || unit.writes[0].key != key("r1") {
            return None;
        }
        left -= 1;
        let input = if run.is_paused() { RunInput::Resume } else { RunInput::Pause };
        let Ok(RunStepOutcome::Changed(change)) = step_run(run.clone(), &input, None, now) else { panic!() };
        run = change.run.clone();
        version += 1;
        Some(RunWrite {
            key: key("r1"),
            expected: ExpectedVersion::Version(version - 1),
            run: change.run,
            log: change.log,
            unheard: Vec::new(),
            settlement: None,
        })
    }));
}

#[tokio::test]
async fn run_conflict_is_retried_without_blocking_others() {
    let shell = RunShell::with_devices(2).await;
    let runs = shell.created(&[new("r1", spec()), new("r2", spec())]).await;
    let accept = |id: &str, run: &RunRecord| {
        let held = run.seats[0].current_holding().unwrap();
        does(id, held.device.as_str(), 0, held.token.0, DeviceAction::Accept)
    };
    let orders = [accept("r1", &runs[0]), accept("r2", &runs[1])];
    rival(&shell, 1, runs[0].clone());
    shell.counted.take();
    let acted = shell.acted(&orders).await;
    assert_eq!(shell.counted.take(), (2, 2, 0));
    assert!(done(&acted[0]).is_paused(), "it was decided on the rival's result");
    assert_eq!(done(&acted[0]).status(), SeatStatus::Claimed);
    assert_eq!(done(&acted[1]).status(), SeatStatus::Claimed);
}

#[tokio::test]
async fn contended_run_command_gives_up() {
    let shell = RunShell::with_devices(1).await;
    let run = shell.created(&[new("r1", spec())]).await.remove(0);
    rival(&shell, usize::MAX, run);
    let answers = shell.perform(&[ask("r1", RunOperation::Input(RunInput::Cancel { reason: None }))]).await;
    assert!(matches!(answers[0], Err(StoreError::Contention(_))), "{answers:?}");
}

#[tokio::test]
async fn corrupt_run_does_not_block_others() {
    let shell = RunShell::with_devices(2).await;
    shell.created(&[new("r1", spec()), new("unreadable", spec())]).await;
    let cancel = |id| ask(id, RunOperation::Input(RunInput::Cancel { reason: None }));
    let answers = shell.perform(&[cancel("unreadable"), cancel("r1"), cancel("missing")]).await;
    assert!(matches!(answers[0], Err(StoreError::Corrupt(_))));
    assert!(
        matches!(&answers[1], Ok(RunReply::Acted(RunOperationReply::Done { run, .. })) if run.status() == SeatStatus::Failed)
    );
    assert!(matches!(answers[2], Ok(RunReply::Acted(RunOperationReply::NoSuchRun))));
}

#[tokio::test]
async fn adopting_action_receives_run_outcome() {
    let shell = RunShell::with_devices(1).await;
    let execution =
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("e1").unwrap() };
    let action = ActionKey { execution, seq: Seq(2), action: Name::parse("film").unwrap() };
    let lease = |epoch| WaitingAction {
        key: action.clone(),
        epoch: Epoch(epoch),
        event_id: EventId(Default::default()),
    };
    let run = shell.created(&[new("r1", RunSpec { waiting: Some(lease(1)), ..spec() })]).await.remove(0);
    let acted = shell.acted(&[ask("r1", RunOperation::Adopt(lease(2)))]).await;
    assert_eq!(done(&acted[0]).waiting, Some(lease(2)));
    let token = run.seats[0].current_holding().unwrap().token.0;
    let end = DeviceAction::Complete { output: RawJson::null() };
    for doing in [DeviceAction::Accept, DeviceAction::Start, end] {
        done(&shell.acted(&[does("r1", "d0", 0, token, doing)]).await[0]);
    }
    let acted = shell.acted(&[ask("r1", RunOperation::Adopt(lease(3)))]).await.remove(0);
    assert!(
        matches!(acted, RunOperationReply::Done { told: Some(RunOutcome::Completed { .. }), .. }),
        "{acted:?}"
    );
    let late = shell.acted(&[ask("r1", RunOperation::Adopt(lease(2)))]).await.remove(0);
    assert!(matches!(late, RunOperationReply::Refused(_)), "{late:?}");
}
