//! Hand-made evidence: each check finds its violation, and none in a correct history.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Check, Evidence, all};
use crate::history::{Action, Event, Execution, Timer, Transition};
use crate::load::{Post, Told};
use crate::sink::{Call, Key, Treated};

const LEDGER: &str = "ledger-1";
const JOB: &str = "job-1";
const ALARM: &str = "alarm-1";
const ACTION: &str = "default/job-1/2/lost";

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn execution(definition: &str, state: &str, seq: i64) -> Execution {
    let (definition, state) = (definition.to_owned(), state.to_owned());
    Execution { definition, seq, state, phase: "active".to_owned(), paused: None }
}

fn event(execution: &str, accept_no: i64, name: &str, seq: i64) -> Event {
    Event {
        execution: execution.to_owned(),
        accept_no,
        name: name.to_owned(),
        key: None,
        status: "completed".to_owned(),
        seq: Some(seq),
        timer_seq: None,
        created_at: 1_000,
        attempts: 0,
    }
}

fn transition(seq: i64, event: Uuid, name: &str) -> Transition {
    Transition { seq, event, name: name.to_owned(), at: 1_000, entered: seq == 1, timers: Vec::new() }
}

fn post(execution: &str, name: &str, n: i64, event: Uuid) -> Post {
    Post {
        execution: execution.to_owned(),
        name: name.to_owned(),
        n,
        key: format!("{execution}#{n}"),
        sent: Instant::now(),
        told: Told::Accepted { event, at: Instant::now() },
    }
}

/// Two posts to a ledger, an action whose answer was lost once, and a timer that fired.
fn sound() -> Evidence {
    let mut evidence = Evidence::default();
    let history = &mut evidence.history;
    history.now = 100_000;
    history.executions.insert(LEDGER.to_owned(), execution("ledger", "open", 3));
    history.executions.insert(JOB.to_owned(), execution("job", "open", 3));
    history.executions.insert(ALARM.to_owned(), execution("alarm", "idle", 3));
    for (number, execution, seq, name) in [
        (1, LEDGER, 1, "millstream.start"),
        (2, LEDGER, 2, "add"),
        (3, LEDGER, 3, "add"),
        (4, JOB, 1, "millstream.start"),
        (5, JOB, 2, "lost"),
        (6, JOB, 3, "finished"),
        (7, ALARM, 1, "millstream.start"),
        (8, ALARM, 2, "arm"),
        (9, ALARM, 3, "ring"),
    ] {
        history.events.insert(id(number), event(execution, number as i64, name, seq));
        history.transitions.entry(execution.to_owned()).or_default().push(transition(seq, id(number), name));
    }
    let alarm = history.transitions.get_mut(ALARM).unwrap();
    let armed = Timer { execution: ALARM.to_owned(), armed_seq: 2, ordinal: 0, fire_at: 1_600 };
    (alarm[1].entered, alarm[2].entered) = (true, true);
    alarm[1].timers.push(armed);
    let ring = history.events.get_mut(&id(9)).unwrap();
    (ring.timer_seq, ring.created_at) = (Some(2), 1_605);
    history.actions.push(Action {
        key: ACTION.to_owned(),
        execution: JOB.to_owned(),
        name: "lost".to_owned(),
        status: "succeeded".to_owned(),
        attempts: 2,
        epoch: 2,
        result_token: Some(2),
    });
    let at = Instant::now();
    for (token, treated, later) in [(1, Treated::DoneSilently, 0), (2, Treated::Repeated, 10)] {
        let at = at + Duration::from_millis(later);
        evidence.target.calls.push(Call { key: ACTION.to_owned(), token, at, treated });
    }
    evidence.target.keys.insert(ACTION.to_owned(), Key { highest: 2, calls: 2, effects: vec![1] });
    evidence.clients.executions.insert(LEDGER.to_owned(), "ledger".to_owned());
    evidence.clients.posts =
        vec![post(LEDGER, "add", 0, id(2)), post(LEDGER, "add", 1, id(3)), post(JOB, "lost", 0, id(5))];
    evidence
}

/// The checks that fail after this change of a correct history.
#[track_caller]
fn found(change: impl FnOnce(&mut Evidence)) -> Vec<Check> {
    let mut evidence = sound();
    assert_eq!(all(&evidence), [], "a sound history");
    change(&mut evidence);
    let mut checks: Vec<Check> = all(&evidence).into_iter().map(|violation| violation.check).collect();
    checks.dedup();
    checks
}

fn event_of(evidence: &mut Evidence, number: u128) -> &mut Event {
    evidence.history.events.get_mut(&id(number)).unwrap()
}

#[test]
fn an_acknowledged_event_that_is_gone_is_found() {
    let gone = found(|evidence| {
        evidence.history.events.remove(&id(3));
        evidence.history.transitions.get_mut(LEDGER).unwrap().pop();
        evidence.history.executions.get_mut(LEDGER).unwrap().seq = 2;
    });
    assert_eq!(gone, [Check::Accepted]);
}

#[test]
fn an_acknowledged_event_that_is_still_undecided_is_found() {
    for status in ["pending", "processing", "failed", "dead", "deferred", "rejected"] {
        let found = found(|evidence| status.clone_into(&mut event_of(evidence, 5).status));
        assert_eq!(found, [Check::Accepted], "{status}");
    }
}

#[test]
fn an_acknowledged_start_that_is_gone_is_found() {
    let gone = found(|evidence| {
        evidence.clients.executions.insert("ledger-2".to_owned(), "ledger".to_owned());
    });
    assert_eq!(gone, [Check::Accepted]);
}

#[test]
fn an_event_that_was_applied_twice_is_found() {
    let twice = found(|evidence| {
        evidence.history.transitions.get_mut(LEDGER).unwrap().push(transition(4, id(3), "add"));
        evidence.history.executions.get_mut(LEDGER).unwrap().seq = 4;
    });
    assert_eq!(twice, [Check::Once]);
}

#[test]
fn a_gap_in_a_log_is_found() {
    let gap = found(|evidence| {
        evidence.history.transitions.get_mut(LEDGER).unwrap().remove(0);
    });
    assert_eq!(gap, [Check::Once]);
}

#[test]
fn a_state_that_is_ahead_of_its_log_or_behind_it_is_found() {
    for seq in [2, 4] {
        let found = found(|evidence| evidence.history.executions.get_mut(LEDGER).unwrap().seq = seq);
        assert_eq!(found, [Check::Once]);
    }
}

#[test]
fn an_event_that_is_completed_without_a_transition_is_found() {
    let lost = found(|evidence| {
        event_of(evidence, 3).seq = None;
        evidence.history.transitions.get_mut(LEDGER).unwrap().pop();
        evidence.history.executions.get_mut(LEDGER).unwrap().seq = 2;
    });
    assert_eq!(lost, [Check::Once]);
}

#[test]
fn posts_that_changed_places_are_found() {
    let swapped = found(|evidence| {
        (event_of(evidence, 2).seq, event_of(evidence, 3).seq) = (Some(3), Some(2));
    });
    assert_eq!(swapped, [Check::Order]);
    let swapped = found(|evidence| {
        (event_of(evidence, 2).accept_no, event_of(evidence, 3).accept_no) = (3, 2);
    });
    assert_eq!(swapped, [Check::Order]);
}

#[test]
fn a_result_of_an_older_lease_is_found() {
    assert_eq!(found(|evidence| evidence.history.actions[0].result_token = Some(1)), [Check::Effects]);
}

#[test]
fn an_action_that_is_not_settled_or_settled_the_wrong_way_is_found() {
    for status in ["waiting", "ready", "leased", "failed", "skipped", "cancelled"] {
        let found = found(|evidence| status.clone_into(&mut evidence.history.actions[0].status));
        assert_eq!(found, [Check::Effects], "{status}");
    }
}

#[test]
fn a_success_without_an_effect_is_found() {
    let found = found(|evidence| evidence.target.keys.get_mut(ACTION).unwrap().effects.clear());
    assert_eq!(found, [Check::Effects]);
}

#[test]
fn two_effects_of_one_action_are_found() {
    let found = found(|evidence| evidence.target.keys.get_mut(ACTION).unwrap().effects.push(2));
    assert_eq!(found, [Check::Effects]);
}

#[test]
fn a_call_under_a_key_of_nobody_is_found() {
    let found = found(|evidence| {
        evidence.target.keys.insert("default/job-1/9/lost".to_owned(), Key::default());
    });
    assert_eq!(found, [Check::Effects]);
}

#[test]
fn a_call_with_a_token_that_nobody_was_given_is_found() {
    assert_eq!(found(|evidence| evidence.target.keys.get_mut(ACTION).unwrap().highest = 3), [Check::Effects]);
}

#[test]
fn an_outcome_that_was_told_twice_or_never_is_found() {
    let twice = found(|evidence| {
        evidence.history.events.insert(id(10), event(JOB, 10, "finished", 4));
        evidence.history.transitions.get_mut(JOB).unwrap().push(transition(4, id(10), "finished"));
        evidence.history.executions.get_mut(JOB).unwrap().seq = 4;
    });
    assert_eq!(twice, [Check::Effects]);
    let never = found(|evidence| {
        evidence.history.events.remove(&id(6));
    });
    assert_eq!(never, [Check::Effects]);
}

#[test]
fn a_late_call_is_found_unless_its_holder_stood_still() {
    let late = |stops: bool| {
        found(|evidence| {
            let at = evidence.target.calls[1].at + Duration::from_secs(5);
            let call = Call { key: ACTION.to_owned(), token: 1, at, treated: Treated::Stale };
            evidence.target.calls.push(call);
            if stops {
                evidence.stops.push((at - Duration::from_secs(4), at - Duration::from_millis(10)));
            }
        })
    };
    assert_eq!(late(false), [Check::Effects]);
    assert_eq!(late(true), []);
}

#[test]
fn a_timer_that_fired_twice_is_found() {
    let twice = found(|evidence| {
        let mut again = event(ALARM, 11, "ring", 4);
        (again.timer_seq, again.created_at) = (Some(2), 1_700);
        (again.status, again.seq) = ("rejected".to_owned(), None);
        evidence.history.events.insert(id(11), again);
    });
    assert_eq!(twice, [Check::Timers]);
}

#[test]
fn a_timer_that_fired_early_is_found() {
    assert_eq!(found(|evidence| event_of(evidence, 9).created_at = 1_599), [Check::Timers]);
}

#[test]
fn a_timer_that_never_fired_is_found() {
    let lost = found(|evidence| {
        evidence.history.events.remove(&id(9));
        evidence.history.transitions.get_mut(ALARM).unwrap().pop();
        evidence.history.executions.get_mut(ALARM).unwrap().seq = 2;
    });
    assert_eq!(lost, [Check::Timers]);
}

#[test]
fn a_timer_that_is_overdue_is_found() {
    let overdue = found(|evidence| {
        let timer = Timer { execution: ALARM.to_owned(), armed_seq: 3, ordinal: 0, fire_at: 90_000 };
        evidence.history.timers.push(timer);
    });
    assert_eq!(overdue, [Check::Timers]);
}

#[test]
fn a_timer_of_a_state_that_was_left_is_found_when_it_was_applied() {
    let stale = found(|evidence| {
        let log = evidence.history.transitions.get_mut(ALARM).unwrap();
        let mut armed_anew = transition(3, id(12), "arm");
        armed_anew.entered = true;
        log.insert(2, armed_anew);
        log[3].seq = 4;
        evidence.history.executions.get_mut(ALARM).unwrap().seq = 4;
        evidence.history.events.insert(id(12), event(ALARM, 12, "arm", 3));
    });
    assert_eq!(stale, [Check::Timers]);
}

#[test]
fn two_events_under_one_key_are_found() {
    let twice = found(|evidence| {
        event_of(evidence, 2).key = Some("k".to_owned());
        event_of(evidence, 3).key = Some("k".to_owned());
    });
    assert_eq!(twice, [Check::Keys]);
}

#[test]
fn an_event_that_was_refused_and_is_there_is_found() {
    let there = found(|evidence| {
        event_of(evidence, 2).key = Some(format!("{LEDGER}#0"));
        evidence.clients.posts[0].told = Told::Refused(422);
    });
    assert_eq!(there, [Check::Keys]);
}

#[test]
fn an_event_that_nobody_was_told_of_may_be_there_once() {
    let there = found(|evidence| {
        event_of(evidence, 2).key = Some(format!("{LEDGER}#0"));
        evidence.clients.posts[0].told = Told::Nothing;
    });
    assert_eq!(there, []);
}
