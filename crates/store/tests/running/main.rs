//! The run service, batched: one read, one commit, each command on the result of those before it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their fixtures")]

mod shell;

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_core::claim::{
    Doing, Ended, Input, Run, RunSpec, Status, Stepped, Told, WaitingAction, Why, step,
};
use millstream_core::id::{ActionKey, Epoch, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId};
use millstream_core::raw::RawJson;
use millstream_store::StoreError;
use millstream_store::run_store::{Expected, RunWrite, Unit};
use millstream_store::running::{Acted, Answer, Around, Ask, Created};

use shell::{Shell, ask, device, does, holders, key, new, spec};

fn done(acted: &Acted) -> &Run {
    let Acted::Done { run, .. } = acted else { panic!("{acted:?}") };
    run
}

#[tokio::test]
async fn many_runs_are_one_commit_and_each_knows_whom_the_others_went_to() {
    let shell = Shell::with_devices(4).await;
    let orders: Vec<_> = (0..5).map(|number| new(&format!("r{number}"), spec())).collect();
    let runs = shell.created(&orders).await;
    let to: BTreeSet<_> = runs.iter().filter_map(|run| holders(run).remove(0)).collect();
    assert_eq!(to.len(), 4, "each device takes one");
    assert_eq!(runs.iter().filter(|run| run.status() == Status::Reassigning).count(), 1, "one has to wait");
    assert_eq!(shell.counted.take(), (0, 1, 1));
    let tally = shell.tally.lock().unwrap().clone();
    assert_eq!((tally.created, tally.assigned), (5, 4));
}

#[tokio::test]
async fn devices_are_not_read_again_for_every_choice() {
    let shell = Shell::with_devices(9).await;
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
async fn one_that_has_left_elsewhere_is_not_chosen_and_one_that_came_elsewhere_is_found() {
    let shell = Shell::with_devices(2).await;
    shell.created(&[new("r1", spec())]).await;
    let first = holders(&shell.run("r1").await).remove(0).unwrap();
    let other = if first == "d0" { "d1" } else { "d0" };
    let left = millstream_core::id::DeviceKey { tenant: TenantId::default_tenant(), device: device(other) };
    shell.stores().devices.remove_devices(&[left]).await.unwrap();
    shell.register("new", Some(1)).await;
    let run = shell.created(&[new("r2", spec())]).await.remove(0);
    assert_eq!(holders(&run), [Some("new".to_owned())]);
}

#[tokio::test]
async fn one_that_got_work_elsewhere_gets_no_more_than_it_has_room_for() {
    let (here, elsewhere) = (Shell::with_devices(2).await, Shell::new());
    here.created(&[new("r1", spec())]).await;
    // The other process writes into the same store.
    let elsewhere = elsewhere.beside(&here);
    elsewhere.created(&[new("r2", spec())]).await;
    let run = here.created(&[new("r3", spec())]).await.remove(0);
    assert_eq!((run.status(), holders(&run)), (Status::Reassigning, vec![None]));
}

#[tokio::test]
async fn a_run_that_exists_is_told_to_whoever_creates_it_again() {
    let shell = Shell::with_devices(3).await;
    let answers = shell.perform(&[new("r1", spec()), new("r1", spec()), new("r2", spec())]).await;
    assert!(matches!(answers[0], Ok(Answer::Created(Created::New(_)))));
    let Ok(Answer::Created(Created::Exists(stored))) = &answers[1] else { panic!("{answers:?}") };
    assert!(stored.run.asks_for(&spec()));
    assert!(matches!(answers[2], Ok(Answer::Created(Created::New(_)))));
}

#[tokio::test]
async fn of_many_who_help_themselves_one_wins_and_the_others_are_told_who() {
    let shell = Shell::with_devices(8).await;
    let by_hand = RunSpec { assign: millstream_core::claim::Assign::Manual, ..spec() };
    shell.created(&[new("r1", by_hand)]).await;
    shell.counted.take();
    let take = |number| ask("r1", Ask::Take { device: device(&format!("d{number}")), seat: None });
    let acted = shell.acted(&(0..8).map(take).collect::<Vec<_>>()).await;
    assert_eq!(shell.counted.take(), (1, 1, 0), "one read, one commit");
    assert_eq!(done(&acted[0]).status(), Status::Claimed);
    for loser in &acted[1..] {
        let Acted::Refused(refusal) = loser else { panic!("{loser:?}") };
        assert_eq!(refusal.holder.as_ref().unwrap().device, device("d0"));
    }
    let unknown = shell.acted(&[ask("r1", Ask::Take { device: device("missing"), seat: None })]).await;
    assert!(matches!(unknown[0], Acted::NoSuchDevice));
}

#[tokio::test]
async fn seats_of_one_run_are_acted_upon_in_one_commit() {
    let shell = Shell::with_devices(3).await;
    let run = shell.created(&[new("r1", RunSpec { devices: 3, ..spec() })]).await.remove(0);
    let mut orders = Vec::new();
    for doing in [Doing::Accept, Doing::Start, Doing::Complete { output: RawJson::null() }] {
        for (number, seat) in run.numbered() {
            let held = seat.held().unwrap();
            orders.push(does("r1", held.device.as_str(), number, held.token.0, doing.clone()));
        }
    }
    shell.counted.take();
    let acted = shell.acted(&orders).await;
    assert_eq!(shell.counted.take(), (1, 1, 0));
    assert_eq!(done(&acted[0]).seats[1].status(), Status::Assigned, "each sees the result of the one before");
    assert_eq!(done(&acted[8]).status(), Status::Completed);
    assert_eq!(shell.run("r1").await.status(), Status::Completed);
}

#[tokio::test]
async fn work_of_lower_priority_gives_way_in_the_same_unit() {
    let shell = Shell::with_devices(1).await;
    let low = shell.created(&[new("low", spec())]).await.remove(0);
    let token = low.seats[0].held().unwrap().token.0;
    shell.acted(&[does("low", "d0", 0, token, Doing::Accept)]).await;
    let urgent = RunSpec { priority: 9, preempt: true, ..spec() };
    let high = shell.created(&[new("high", urgent.clone()), new("late", urgent)]).await;
    assert_eq!(holders(&high[0]), [Some("d0".to_owned())]);
    assert_eq!(holders(&high[1]), [None], "equal priorities do not preempt each other");
    let low = shell.run("low").await;
    assert_eq!((low.status(), low.seats[0].previous[0].reason), (Status::Reassigning, Ended::Preempted));
    let late = shell.acted(&[does("low", "d0", 0, token, Doing::Start)]).await.remove(0);
    assert!(matches!(late, Acted::Refused(refusal) if refusal.why == Why::StaleToken));
}

#[tokio::test]
async fn everything_that_is_due_is_one_batch() {
    let shell = Shell::with_devices(3).await;
    let names = ["unanswered", "unbegun", "silent"];
    let runs = shell.created(&names.map(|name| new(name, spec()))).await;
    let of = |at: usize| runs[at].seats[0].held().unwrap().clone();
    let accept = |at: usize| does(names[at], of(at).device.as_str(), 0, of(at).token.0, Doing::Accept);
    shell.acted(&[accept(1), accept(2)]).await;
    shell.acted(&[does("silent", of(2).device.as_str(), 0, of(2).token.0, Doing::Start)]).await;
    let waiting = shell.created(&[new("resting", spec())]).await.remove(0);
    assert_eq!(waiting.status(), Status::Reassigning, "all are busy");
    let heard = millstream_store::run_store::SeatBeat {
        run: key("unbegun"),
        seat: 0,
        device: of(1).device,
        token: of(1).token,
        progress: None,
    };
    shell.pass(Duration::from_secs(250));
    shell.stores().runs.beat_seats(std::slice::from_ref(&heard), shell.now()).await.unwrap();
    shell.pass(Duration::from_secs(60));
    for number in 0..3 {
        shell.register(&format!("d{number}"), Some(1)).await;
    }
    let due = shell.stores().runs.due_runs(shell.now(), 100).await.unwrap();
    assert_eq!(due.len(), 4);
    shell.counted.take();
    let orders: Vec<_> = due.iter().map(|key| ask(key.run.as_str(), Ask::Due)).collect();
    let acted = shell.acted(&orders).await;
    assert_eq!(shell.counted.take(), (1, 1, 1), "one read of the runs, one of the devices, one commit");
    assert!(acted.iter().all(|acted| matches!(acted, Acted::Done { .. })));
    let mut reasons = Vec::new();
    for name in names {
        reasons.push(shell.run(name).await.seats[0].previous[0].reason);
    }
    assert_eq!(reasons, [Ended::Timeout, Ended::Timeout, Ended::Heartbeat]);
    let mut holding = Vec::new();
    for name in ["unanswered", "unbegun", "silent", "resting"] {
        holding.extend(holders(&shell.run(name).await).remove(0));
    }
    let distinct: BTreeSet<_> = holding.iter().collect();
    assert_eq!((distinct.len(), holding.len()), (3, 3), "each lost seat is reassigned, one per device");
    let again = shell.acted(&orders[..1]).await;
    assert!(matches!(again[0], Acted::Done { .. }), "nothing is due any more");
    assert_eq!(shell.counted.take().1, 0, "and nothing is written");
}

/// Pauses or resumes the run `times` times, each just before a commit.
fn rival(shell: &Shell, times: usize, stored: Run) {
    let (mut left, mut version, mut run) = (times, 1, stored);
    let now = shell.now();
    *shell.counted.rival.lock().unwrap() = Some(Box::new(move |unit: &Unit| {
        if left == 0 || unit.writes[0].key != key("r1") {
            return None;
        }
        left -= 1;
        let input = if run.is_paused() { Input::Resume } else { Input::Pause };
        let Ok(Stepped::Changed(change)) = step(run.clone(), &input, None, now) else { panic!() };
        run = change.run.clone();
        version += 1;
        Some(RunWrite {
            key: key("r1"),
            expected: Expected::Version(version - 1),
            run: change.run,
            log: change.log,
            unheard: Vec::new(),
            settlement: None,
        })
    }));
}

#[tokio::test]
async fn what_others_were_faster_with_is_looked_at_again_and_nobody_else_waits_for_it() {
    let shell = Shell::with_devices(2).await;
    let runs = shell.created(&[new("r1", spec()), new("r2", spec())]).await;
    let accept = |id: &str, run: &Run| {
        let held = run.seats[0].held().unwrap();
        does(id, held.device.as_str(), 0, held.token.0, Doing::Accept)
    };
    let orders = [accept("r1", &runs[0]), accept("r2", &runs[1])];
    rival(&shell, 1, runs[0].clone());
    shell.counted.take();
    let acted = shell.acted(&orders).await;
    assert_eq!(shell.counted.take(), (2, 2, 0));
    assert!(done(&acted[0]).is_paused(), "it was decided on the rival's result");
    assert_eq!(done(&acted[0]).status(), Status::Claimed);
    assert_eq!(done(&acted[1]).status(), Status::Claimed);
}

#[tokio::test]
async fn whoever_is_always_slower_gives_up() {
    let shell = Shell::with_devices(1).await;
    let run = shell.created(&[new("r1", spec())]).await.remove(0);
    rival(&shell, usize::MAX, run);
    let answers = shell.perform(&[ask("r1", Ask::Input(Input::Cancel { reason: None }))]).await;
    assert!(matches!(answers[0], Err(StoreError::Contention(_))), "{answers:?}");
}

#[tokio::test]
async fn one_that_cannot_be_read_does_not_hold_up_the_others() {
    let shell = Shell::with_devices(2).await;
    shell.created(&[new("r1", spec()), new("unreadable", spec())]).await;
    let cancel = |id| ask(id, Ask::Input(Input::Cancel { reason: None }));
    let answers = shell.perform(&[cancel("unreadable"), cancel("r1"), cancel("missing")]).await;
    assert!(matches!(answers[0], Err(StoreError::Corrupt(_))));
    assert!(
        matches!(&answers[1], Ok(Answer::Acted(Acted::Done { run, .. })) if run.status() == Status::Failed)
    );
    assert!(matches!(answers[2], Ok(Answer::Acted(Acted::NoSuchRun))));
}

#[tokio::test]
async fn an_action_that_is_leased_anew_takes_its_run_over_and_hears_how_it_ended() {
    let shell = Shell::with_devices(1).await;
    let execution =
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("e1").unwrap() };
    let action = ActionKey { execution, seq: Seq(2), action: Name::parse("film").unwrap() };
    let lease = |epoch| WaitingAction {
        key: action.clone(),
        epoch: Epoch(epoch),
        event_id: EventId(Default::default()),
    };
    let run = shell.created(&[new("r1", RunSpec { waiting: Some(lease(1)), ..spec() })]).await.remove(0);
    let acted = shell.acted(&[ask("r1", Ask::Adopt(lease(2)))]).await;
    assert_eq!(done(&acted[0]).waiting, Some(lease(2)));
    let token = run.seats[0].held().unwrap().token.0;
    let end = Doing::Complete { output: RawJson::null() };
    for doing in [Doing::Accept, Doing::Start, end] {
        done(&shell.acted(&[does("r1", "d0", 0, token, doing)]).await[0]);
    }
    let acted = shell.acted(&[ask("r1", Ask::Adopt(lease(3)))]).await.remove(0);
    assert!(matches!(acted, Acted::Done { told: Some(Told::Completed { .. }), .. }), "{acted:?}");
    let late = shell.acted(&[ask("r1", Ask::Adopt(lease(2)))]).await.remove(0);
    assert!(matches!(late, Acted::Refused(_)), "{late:?}");
}
