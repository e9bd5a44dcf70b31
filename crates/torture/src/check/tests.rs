//! Hand-made evidence: each check finds its violation, and none in a correct history.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{TortureCheck, TortureEvidence, check_all};
use crate::history::{TortureAction, TortureEvent, TortureExecution, TortureTimer, TortureTransition};
use crate::load::{PostVerdict, TorturePost};
use crate::sink::{SinkKeyRecord, SinkTreatment, TortureSinkCall};

const LEDGER: &str = "ledger-1";
const JOB: &str = "job-1";
const ALARM: &str = "alarm-1";
const ACTION: &str = "default/job-1/2/lost";

fn event_id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn sample_execution(definition: &str, state: &str, seq: i64) -> TortureExecution {
    let (definition, state) = (definition.to_owned(), state.to_owned());
    TortureExecution { definition, seq, state, phase: "active".to_owned(), paused: None }
}

fn sample_event(execution: &str, accept_no: i64, name: &str, seq: i64) -> TortureEvent {
    TortureEvent {
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

fn sample_transition(seq: i64, event: Uuid, name: &str) -> TortureTransition {
    TortureTransition { seq, event, name: name.to_owned(), at: 1_000, entered: seq == 1, timers: Vec::new() }
}

fn sample_post(execution: &str, name: &str, n: i64, event: Uuid) -> TorturePost {
    TorturePost {
        execution: execution.to_owned(),
        name: name.to_owned(),
        n,
        key: format!("{execution}#{n}"),
        sent: Instant::now(),
        told: PostVerdict::Accepted { event, at: Instant::now() },
    }
}

/// Two posts to a ledger, an action whose answer was lost once, and a timer that fired.
fn sound_evidence() -> TortureEvidence {
    let mut evidence = TortureEvidence::default();
    let history = &mut evidence.history;
    history.now = 100_000;
    history.executions.insert(LEDGER.to_owned(), sample_execution("ledger", "open", 3));
    history.executions.insert(JOB.to_owned(), sample_execution("job", "open", 3));
    history.executions.insert(ALARM.to_owned(), sample_execution("alarm", "idle", 3));
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
        history.events.insert(event_id(number), sample_event(execution, number as i64, name, seq));
        history.transitions.entry(execution.to_owned()).or_default().push(sample_transition(
            seq,
            event_id(number),
            name,
        ));
    }
    let alarm = history.transitions.get_mut(ALARM).unwrap();
    let armed = TortureTimer { execution: ALARM.to_owned(), armed_seq: 2, ordinal: 0, fire_at: 1_600 };
    (alarm[1].entered, alarm[2].entered) = (true, true);
    alarm[1].timers.push(armed);
    let ring = history.events.get_mut(&event_id(9)).unwrap();
    (ring.timer_seq, ring.created_at) = (Some(2), 1_605);
    history.actions.push(TortureAction {
        key: ACTION.to_owned(),
        execution: JOB.to_owned(),
        name: "lost".to_owned(),
        status: "succeeded".to_owned(),
        attempts: 2,
        epoch: 2,
        result_token: Some(2),
    });
    let at = Instant::now();
    for (token, treated, later) in [(1, SinkTreatment::DoneSilently, 0), (2, SinkTreatment::Repeated, 10)] {
        let at = at + Duration::from_millis(later);
        evidence.target.calls.push(TortureSinkCall { key: ACTION.to_owned(), token, at, treated });
    }
    evidence.target.keys.insert(ACTION.to_owned(), SinkKeyRecord { highest: 2, calls: 2, effects: vec![1] });
    evidence.clients.executions.insert(LEDGER.to_owned(), "ledger".to_owned());
    evidence.clients.posts = vec![
        sample_post(LEDGER, "add", 0, event_id(2)),
        sample_post(LEDGER, "add", 1, event_id(3)),
        sample_post(JOB, "lost", 0, event_id(5)),
    ];
    evidence
}

/// The checks that fail after this change of a correct history.
#[track_caller]
fn checks_failed_by(change: impl FnOnce(&mut TortureEvidence)) -> Vec<TortureCheck> {
    let mut evidence = sound_evidence();
    assert_eq!(check_all(&evidence), [], "a sound history");
    change(&mut evidence);
    let mut checks: Vec<TortureCheck> =
        check_all(&evidence).into_iter().map(|violation| violation.check).collect();
    checks.dedup();
    checks
}

fn event_of(evidence: &mut TortureEvidence, number: u128) -> &mut TortureEvent {
    evidence.history.events.get_mut(&event_id(number)).unwrap()
}

#[test]
fn missing_acknowledged_event_is_found() {
    let gone = checks_failed_by(|evidence| {
        evidence.history.events.remove(&event_id(3));
        evidence.history.transitions.get_mut(LEDGER).unwrap().pop();
        evidence.history.executions.get_mut(LEDGER).unwrap().seq = 2;
    });
    assert_eq!(gone, [TortureCheck::Accepted]);
}

#[test]
fn undecided_acknowledged_event_is_found() {
    for status in ["pending", "processing", "failed", "dead", "deferred", "rejected"] {
        let found = checks_failed_by(|evidence| status.clone_into(&mut event_of(evidence, 5).status));
        assert_eq!(found, [TortureCheck::Accepted], "{status}");
    }
}

#[test]
fn missing_acknowledged_start_is_found() {
    let gone = checks_failed_by(|evidence| {
        evidence.clients.executions.insert("ledger-2".to_owned(), "ledger".to_owned());
    });
    assert_eq!(gone, [TortureCheck::Accepted]);
}

#[test]
fn twice_applied_event_is_found() {
    let twice = checks_failed_by(|evidence| {
        evidence.history.transitions.get_mut(LEDGER).unwrap().push(sample_transition(4, event_id(3), "add"));
        evidence.history.executions.get_mut(LEDGER).unwrap().seq = 4;
    });
    assert_eq!(twice, [TortureCheck::Once]);
}

#[test]
fn log_gap_is_found() {
    let gap = checks_failed_by(|evidence| {
        evidence.history.transitions.get_mut(LEDGER).unwrap().remove(0);
    });
    assert_eq!(gap, [TortureCheck::Once]);
}

#[test]
fn state_differing_from_log_is_found() {
    for seq in [2, 4] {
        let found =
            checks_failed_by(|evidence| evidence.history.executions.get_mut(LEDGER).unwrap().seq = seq);
        assert_eq!(found, [TortureCheck::Once]);
    }
}

#[test]
fn completed_event_without_transition_is_found() {
    let lost = checks_failed_by(|evidence| {
        event_of(evidence, 3).seq = None;
        evidence.history.transitions.get_mut(LEDGER).unwrap().pop();
        evidence.history.executions.get_mut(LEDGER).unwrap().seq = 2;
    });
    assert_eq!(lost, [TortureCheck::Once]);
}

#[test]
fn reordered_posts_are_found() {
    let swapped = checks_failed_by(|evidence| {
        (event_of(evidence, 2).seq, event_of(evidence, 3).seq) = (Some(3), Some(2));
    });
    assert_eq!(swapped, [TortureCheck::Order]);
    let swapped = checks_failed_by(|evidence| {
        (event_of(evidence, 2).accept_no, event_of(evidence, 3).accept_no) = (3, 2);
    });
    assert_eq!(swapped, [TortureCheck::Order]);
}

#[test]
fn result_of_older_lease_is_found() {
    assert_eq!(
        checks_failed_by(|evidence| evidence.history.actions[0].result_token = Some(1)),
        [TortureCheck::Effects]
    );
}

#[test]
fn wrongly_settled_action_is_found() {
    for status in ["waiting", "ready", "leased", "failed", "skipped", "cancelled"] {
        let found = checks_failed_by(|evidence| status.clone_into(&mut evidence.history.actions[0].status));
        assert_eq!(found, [TortureCheck::Effects], "{status}");
    }
}

#[test]
fn success_without_effect_is_found() {
    let found = checks_failed_by(|evidence| evidence.target.keys.get_mut(ACTION).unwrap().effects.clear());
    assert_eq!(found, [TortureCheck::Effects]);
}

#[test]
fn repeated_action_effect_is_found() {
    let found = checks_failed_by(|evidence| evidence.target.keys.get_mut(ACTION).unwrap().effects.push(2));
    assert_eq!(found, [TortureCheck::Effects]);
}

#[test]
fn call_under_unknown_key_is_found() {
    let found = checks_failed_by(|evidence| {
        evidence.target.keys.insert("default/job-1/9/lost".to_owned(), SinkKeyRecord::default());
    });
    assert_eq!(found, [TortureCheck::Effects]);
}

#[test]
fn call_with_unknown_token_is_found() {
    assert_eq!(
        checks_failed_by(|evidence| evidence.target.keys.get_mut(ACTION).unwrap().highest = 3),
        [TortureCheck::Effects]
    );
}

#[test]
fn repeated_or_missing_outcome_is_found() {
    let twice = checks_failed_by(|evidence| {
        evidence.history.events.insert(event_id(10), sample_event(JOB, 10, "finished", 4));
        evidence.history.transitions.get_mut(JOB).unwrap().push(sample_transition(
            4,
            event_id(10),
            "finished",
        ));
        evidence.history.executions.get_mut(JOB).unwrap().seq = 4;
    });
    assert_eq!(twice, [TortureCheck::Effects]);
    let never = checks_failed_by(|evidence| {
        evidence.history.events.remove(&event_id(6));
    });
    assert_eq!(never, [TortureCheck::Effects]);
}

#[test]
fn late_call_of_running_holder_is_found() {
    let late = |stops: bool| {
        checks_failed_by(|evidence| {
            let at = evidence.target.calls[1].at + Duration::from_secs(5);
            let call =
                TortureSinkCall { key: ACTION.to_owned(), token: 1, at, treated: SinkTreatment::Stale };
            evidence.target.calls.push(call);
            if stops {
                evidence.stops.push((at - Duration::from_secs(4), at - Duration::from_millis(10)));
            }
        })
    };
    assert_eq!(late(false), [TortureCheck::Effects]);
    assert_eq!(late(true), []);
}

#[test]
fn twice_fired_timer_is_found() {
    let twice = checks_failed_by(|evidence| {
        let mut again = sample_event(ALARM, 11, "ring", 4);
        (again.timer_seq, again.created_at) = (Some(2), 1_700);
        (again.status, again.seq) = ("rejected".to_owned(), None);
        evidence.history.events.insert(event_id(11), again);
    });
    assert_eq!(twice, [TortureCheck::Timers]);
}

#[test]
fn early_timer_is_found() {
    assert_eq!(checks_failed_by(|evidence| event_of(evidence, 9).created_at = 1_599), [TortureCheck::Timers]);
}

#[test]
fn lost_timer_is_found() {
    let lost = checks_failed_by(|evidence| {
        evidence.history.events.remove(&event_id(9));
        evidence.history.transitions.get_mut(ALARM).unwrap().pop();
        evidence.history.executions.get_mut(ALARM).unwrap().seq = 2;
    });
    assert_eq!(lost, [TortureCheck::Timers]);
}

#[test]
fn overdue_timer_is_found() {
    let overdue = checks_failed_by(|evidence| {
        let timer = TortureTimer { execution: ALARM.to_owned(), armed_seq: 3, ordinal: 0, fire_at: 90_000 };
        evidence.history.timers.push(timer);
    });
    assert_eq!(overdue, [TortureCheck::Timers]);
}

#[test]
fn applied_timer_of_left_state_is_found() {
    let stale = checks_failed_by(|evidence| {
        let log = evidence.history.transitions.get_mut(ALARM).unwrap();
        let mut armed_anew = sample_transition(3, event_id(12), "arm");
        armed_anew.entered = true;
        log.insert(2, armed_anew);
        log[3].seq = 4;
        evidence.history.executions.get_mut(ALARM).unwrap().seq = 4;
        evidence.history.events.insert(event_id(12), sample_event(ALARM, 12, "arm", 3));
    });
    assert_eq!(stale, [TortureCheck::Timers]);
}

#[test]
fn two_events_under_key_are_found() {
    let twice = checks_failed_by(|evidence| {
        event_of(evidence, 2).key = Some("k".to_owned());
        event_of(evidence, 3).key = Some("k".to_owned());
    });
    assert_eq!(twice, [TortureCheck::Keys]);
}

#[test]
fn stored_refused_event_is_found() {
    let there = checks_failed_by(|evidence| {
        event_of(evidence, 2).key = Some(format!("{LEDGER}#0"));
        evidence.clients.posts[0].told = PostVerdict::Refused(422);
    });
    assert_eq!(there, [TortureCheck::Keys]);
}

#[test]
fn unacknowledged_event_may_exist_once() {
    let there = checks_failed_by(|evidence| {
        event_of(evidence, 2).key = Some(format!("{LEDGER}#0"));
        evidence.clients.posts[0].told = PostVerdict::Nothing;
    });
    assert_eq!(there, []);
}
