//! Hand-made evidence: a correct history passes, and each violation is found by its rule.

use std::time::Duration;

use millstream_devices::claim::{
    DeviceAction, RunInput, RunInputKind, SeatFailure, SeatFailureKind, SeatLossReason, SeatOutlook,
    SeatStatus, SeatToken,
};

use super::evidence::{DeviceEvidence, DeviceRule, ExecutionSeen, check_all};
use super::unowned::{WaitKind, collect_waits};
use crate::devices::plan::{FAILED, SUCCEEDED};
use crate::devices::record::DeviceAnswer;
use run_story::{BEGAN, RunStory, device_id, timestamp_at};

mod run_story;

fn broken_rules(evidence: &DeviceEvidence) -> Vec<DeviceRule> {
    let findings = check_all(evidence);
    for finding in &findings {
        println!("{finding}");
    }
    let mut rules: Vec<DeviceRule> = findings.into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn correct_device_history_passes() {
    assert_eq!(broken_rules(&RunStory::taken_over().evidence()), []);
    let mut two = RunStory::with_devices(2);
    two.assign_seat(0, "a").assign_seat(1, "b").pass_time(5).finish_seat("a", 0).finish_seat("b", 1);
    assert_eq!(broken_rules(&two.evidence()), []);
    let mut failed = RunStory::new();
    let failure = SeatFailure { kind: SeatFailureKind::Error, message: "broken".to_owned(), class: None };
    failed.assign_seat(0, "a").pass_time(5).apply_device_input("a", 0, DeviceAction::Accept).pass_time(5);
    failed.apply_device_input("a", 0, DeviceAction::Fail { failure, retryable: false });
    assert_eq!(broken_rules(&failed.evidence()), []);
}

#[test]
fn unfinished_run_is_found() {
    let mut story = RunStory::new();
    story.assign_seat(0, "a").pass_time(5).apply_device_input("a", 0, DeviceAction::Accept);
    assert_eq!(broken_rules(&story.evidence()), [DeviceRule::Ended]);
}

#[test]
fn missing_run_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    evidence.clients.runs.insert("run-2".to_owned());
    assert_eq!(broken_rules(&evidence), [DeviceRule::Ended]);
}

#[test]
fn run_failure_without_reason_is_found() {
    let mut story = RunStory::new();
    story.assign_seat(0, "a").pass_time(5).apply_input(&RunInput::Cancel { reason: None });
    let mut evidence = story.evidence();
    assert_eq!(broken_rules(&evidence), []);
    evidence.runs[0].seats[0].error = Some(("cancelled".to_owned(), String::new()));
    assert_eq!(broken_rules(&evidence), [DeviceRule::Ended]);
}

#[test]
fn accepted_late_completion_is_found() {
    let mut story = RunStory::taken_over();
    story.pass_time(50).record_answer(
        "a",
        0,
        1,
        RunInputKind::Complete,
        DeviceAnswer::Refused { kind: "not-owner".to_owned() },
    );
    assert_eq!(broken_rules(&story.evidence()), []);
    story.record_answer("a", 0, 1, RunInputKind::Complete, DeviceAnswer::Done { token: None });
    assert_eq!(broken_rules(&story.evidence()), [DeviceRule::Tokens]);
}

#[test]
fn repeated_run_completion_passes() {
    let mut story = RunStory::taken_over();
    story.pass_time(50_000).record_answer(
        "b",
        0,
        2,
        RunInputKind::Complete,
        DeviceAnswer::Done { token: None },
    );
    assert_eq!(broken_rules(&story.evidence()), []);
}

#[test]
fn progress_under_old_token_is_found() {
    let mut story = RunStory::taken_over();
    story.pass_time(500).record_answer(
        "a",
        0,
        1,
        RunInputKind::Progress,
        DeviceAnswer::Done { token: Some(1) },
    );
    assert!(broken_rules(&story.evidence()).contains(&DeviceRule::Tokens));
}

#[test]
fn two_accepted_devices_are_found() {
    let mut story = RunStory::taken_over();
    let mut evidence = story.evidence();
    // As if the log had been written afterwards: only the devices' records show it.
    story.record_answer("a", 0, 1, RunInputKind::Heartbeat, DeviceAnswer::Done { token: Some(1) });
    story.pass_time(40).record_answer(
        "a",
        0,
        1,
        RunInputKind::Heartbeat,
        DeviceAnswer::Done { token: Some(1) },
    );
    evidence.clients.acts = story.acts.clone();
    for act in evidence.clients.acts.iter_mut().filter(|act| act.device == "b") {
        act.sent -= 30;
        act.answered -= 30;
    }
    let findings = check_all(&evidence);
    assert!(findings.iter().any(|finding| finding.what.contains("both had it")), "{findings:?}");
}

#[test]
fn acceptance_after_end_is_found() {
    let mut story = RunStory::taken_over();
    let lenient = |story: &RunStory| {
        let mut evidence = story.evidence();
        evidence.bounds.write = 60_000;
        broken_rules(&evidence)
    };
    story.pass_time(50).record_answer(
        "b",
        0,
        2,
        RunInputKind::Heartbeat,
        DeviceAnswer::Refused { kind: "release".to_owned() },
    );
    assert_eq!(lenient(&story), []);
    story.pass_time(50).record_answer(
        "b",
        0,
        2,
        RunInputKind::Heartbeat,
        DeviceAnswer::Done { token: Some(2) },
    );
    assert_eq!(lenient(&story), [DeviceRule::Tokens]);
}

#[test]
fn foreign_device_token_is_found() {
    let mut story = RunStory::taken_over();
    story.record_answer("c", 0, 2, RunInputKind::Heartbeat, DeviceAnswer::Done { token: Some(2) });
    assert!(broken_rules(&story.evidence()).contains(&DeviceRule::Tokens));
}

#[test]
fn non_increasing_token_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    for entry in evidence.runs[0].log.iter_mut().filter(|entry| entry.token == Some(SeatToken(1))) {
        entry.token = Some(SeatToken(3));
    }
    assert!(broken_rules(&evidence).contains(&DeviceRule::Tokens));
}

#[test]
fn twice_assigned_seat_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    evidence.runs[0].log.retain(|entry| entry.word != RunInputKind::HeartbeatTimeout);
    let rules = broken_rules(&evidence);
    assert!(rules.contains(&DeviceRule::Tokens) && rules.contains(&DeviceRule::History), "{rules:?}");
}

#[test]
fn device_with_two_seats_is_found() {
    let mut two = RunStory::with_devices(2);
    two.assign_seat(0, "a").assign_seat(1, "b").pass_time(5).finish_seat("a", 0).finish_seat("b", 1);
    let mut evidence = two.evidence();
    for entry in evidence.runs[0].log.iter_mut().filter(|entry| entry.seat == Some(1)) {
        entry.device = entry.device.as_ref().map(|_| device_id("a"));
    }
    assert!(broken_rules(&evidence).contains(&DeviceRule::Tokens));
}

#[test]
fn completion_without_request_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    evidence.clients.acts.retain(|act| act.word != RunInputKind::Complete);
    assert_eq!(broken_rules(&evidence), [DeviceRule::Tokens]);
}

#[test]
fn log_line_outside_table_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    for entry in evidence.runs[0].log.iter_mut().filter(|entry| entry.word == RunInputKind::Start) {
        entry.word = RunInputKind::Complete;
    }
    assert!(broken_rules(&evidence).contains(&DeviceRule::History));
}

#[test]
fn missing_log_line_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    let start = evidence.runs[0].log.iter().position(|entry| entry.word == RunInputKind::Start).unwrap();
    evidence.runs[0].log.remove(start);
    assert!(broken_rules(&evidence).contains(&DeviceRule::History));
}

#[test]
fn log_going_back_in_time_is_found() {
    let mut evidence = RunStory::taken_over().evidence();
    let last = evidence.runs[0].log.last_mut().unwrap();
    last.at = last.at.minus(Duration::from_millis(200));
    assert!(broken_rules(&evidence).contains(&DeviceRule::History));
}

#[test]
fn unknown_former_holders_are_found() {
    let mut evidence = RunStory::taken_over().evidence();
    evidence.runs[0].seats[0].previous[0].reason = SeatLossReason::Declined;
    assert_eq!(broken_rules(&evidence), [DeviceRule::History]);
    let mut evidence = RunStory::taken_over().evidence();
    evidence.runs[0].seats[0].previous.clear();
    assert_eq!(broken_rules(&evidence), [DeviceRule::History]);
    let mut evidence = RunStory::taken_over().evidence();
    evidence.runs[0].seats[0].previous[0].ended_at = timestamp_at(BEGAN);
    assert_eq!(broken_rules(&evidence), [DeviceRule::History]);
}

#[test]
fn late_silence_detection_is_found() {
    let mut story = RunStory::new();
    story
        .assign_seat(0, "a")
        .pass_time(10)
        .apply_device_input("a", 0, DeviceAction::Accept)
        .pass_time(10)
        .apply_device_input("a", 0, DeviceAction::Start);
    story
        .pass_time(3_600)
        .apply_input(&RunInput::HeartbeatTimeout { seat: 0 })
        .assign_seat(0, "b")
        .pass_time(20)
        .finish_seat("b", 0);
    let evidence = story.evidence();
    assert_eq!(broken_rules(&evidence), [DeviceRule::Unowned]);
    let silent =
        collect_waits(&evidence.runs).into_iter().find(|wait| wait.kind == WaitKind::Silent).unwrap();
    assert_eq!((silent.wait_millis(), silent.excess_millis()), (3_600, 1_600));
    // No process could monitor the runs.
    let mut evidence = evidence;
    evidence.clients.outages.push((silent.from + 1_000, silent.from + 1_500));
    assert_eq!(broken_rules(&evidence), []);
}

#[test]
fn open_seat_is_found_unless_paused() {
    let mut story = RunStory::new();
    story.assign_seat(0, "a").pass_time(5).apply_device_input("a", 0, DeviceAction::Decline { reason: None });
    story.pass_time(1_600).assign_seat(0, "b").pass_time(20).finish_seat("b", 0);
    assert_eq!(broken_rules(&story.evidence()), [DeviceRule::Unowned]);
    let mut story = RunStory::new();
    story
        .assign_seat(0, "a")
        .pass_time(5)
        .apply_device_input("a", 0, DeviceAction::Decline { reason: None })
        .apply_input(&RunInput::Pause);
    story
        .pass_time(9_000)
        .apply_input(&RunInput::Resume)
        .pass_time(900)
        .assign_seat(0, "b")
        .pass_time(20)
        .finish_seat("b", 0);
    assert_eq!(broken_rules(&story.evidence()), []);
}

#[test]
fn unanswered_offer_and_long_rest_are_found() {
    let mut story = RunStory::new();
    story
        .assign_seat(0, "a")
        .pass_time(2_600)
        .apply_input(&RunInput::AssignmentTimeout { seat: 0 })
        .assign_seat(0, "b");
    assert!(broken_rules(&story.pass_time(20).finish_seat("b", 0).evidence()).contains(&DeviceRule::Unowned));
    let rested = |length: u64| {
        let mut story = RunStory::new();
        story.assign_seat(0, "a").pass_time(5).apply_device_input(
            "a",
            0,
            DeviceAction::Decline { reason: None },
        );
        story.apply_input(&RunInput::NobodyViable {
            seat: 0,
            outlook: SeatOutlook::Declined,
            decision: None,
        });
        story
            .pass_time(length)
            .apply_input(&RunInput::BackoffOver { seat: 0 })
            .assign_seat(0, "a")
            .pass_time(20)
            .finish_seat("a", 0);
        broken_rules(&story.evidence())
    };
    assert_eq!(rested(6_400), []);
    assert_eq!(rested(6_600), [DeviceRule::Unowned]);
}

#[test]
fn seat_waiting_for_room_passes() {
    let mut story = RunStory::new();
    let busy = || RunInput::NobodyViable { seat: 0, outlook: SeatOutlook::Busy, decision: None };
    story
        .pass_time(5)
        .apply_input(&busy())
        .pass_time(5_000)
        .apply_input(&RunInput::BackoffOver { seat: 0 })
        .assign_seat(0, "a");
    story.pass_time(1_100).apply_input(&RunInput::AssignmentTimeout { seat: 0 }).apply_input(&busy());
    story
        .pass_time(10_000)
        .apply_input(&RunInput::BackoffOver { seat: 0 })
        .assign_seat(0, "b")
        .pass_time(20)
        .finish_seat("b", 0);
    assert_eq!(broken_rules(&story.evidence()), []);
}

fn evidence_with_names(names: &[&str]) -> DeviceEvidence {
    let mut evidence = RunStory::taken_over().evidence();
    evidence.clients.executions.insert("execution-1".to_owned());
    evidence.runs[0].execution = Some("execution-1".to_owned());
    evidence.executions.push(ExecutionSeen {
        id: "execution-1".to_owned(),
        status: "completed".to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    });
    evidence
}

#[test]
fn execution_receives_run_outcome_once() {
    assert_eq!(broken_rules(&evidence_with_names(&["make", SUCCEEDED])), []);
    assert_eq!(broken_rules(&evidence_with_names(&["make"])), [DeviceRule::Settled]);
    assert_eq!(broken_rules(&evidence_with_names(&["make", SUCCEEDED, SUCCEEDED])), [DeviceRule::Settled]);
    assert_eq!(broken_rules(&evidence_with_names(&["make", FAILED])), [DeviceRule::Settled]);
    let mut evidence = evidence_with_names(&["make", SUCCEEDED]);
    evidence.runs[0].execution = None;
    assert_eq!(broken_rules(&evidence), [DeviceRule::Settled]);
}

#[test]
fn run_story_matches_engine_end() {
    assert_eq!(RunStory::taken_over().run.status(), SeatStatus::Completed);
}
