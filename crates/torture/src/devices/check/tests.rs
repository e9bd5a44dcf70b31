//! Hand-made evidence: a correct history passes, and each violation is found by its rule.

use std::time::Duration;

use millstream_core::claim::{
    Act as ClaimAct, Change, Creator, Doing, Failure, FailureKind, Input, Progress, Run, RunSpec, Settings,
    Stepped, Token, create, step,
};
use millstream_core::claim::{Ended, Outlook, Seat, SeatState, Status, Word};
use millstream_core::id::{DeviceId, Name};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use super::evidence::{Bounds, Evidence, ExecutionSeen, Rule, RunSeen, SeatSeen, all};
use super::unowned::{Kind, waits};
use crate::devices::plan::{FAILED, SUCCEEDED};
use crate::devices::record::{Act, Told, Written};

const BEGAN: u64 = 1_000_000;

fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

/// History of one run, made with the engine's own rules, with the answers to its devices.
struct Story {
    run: Run,
    log: Vec<millstream_core::claim::Entry>,
    now: u64,
    acts: Vec<Act>,
}

impl Story {
    fn new() -> Self {
        Self::of(1)
    }

    fn of(devices: u16) -> Self {
        let settings = Settings {
            assignment_timeout: Duration::from_secs(1),
            claim_timeout: Duration::from_secs(2),
            heartbeat: Duration::from_millis(500),
            heartbeat_timeout: Duration::from_secs(2),
            ..Settings::default()
        };
        let kind = Name::parse("job").unwrap();
        let spec = RunSpec { devices, settings, ..RunSpec::of(kind, RawJson::null()) };
        assert_eq!(spec.creator, None::<Creator>);
        let Change { run, log, .. } = create(spec, None, at(BEGAN));
        Self { run, log, now: BEGAN, acts: Vec::new() }
    }

    fn pass(&mut self, millis: u64) -> &mut Self {
        self.now += millis;
        self
    }

    fn input(&mut self, input: &Input) -> &mut Self {
        let stepped = step(self.run.clone(), input, None, at(self.now)).unwrap();
        if let Stepped::Changed(change) = stepped {
            self.run = change.run;
            self.log.extend(change.log);
        }
        self
    }

    fn assign(&mut self, seat: u16, name: &str) -> &mut Self {
        self.input(&Input::Assign { seat, device: device(name), decision: None })
    }

    /// A device performs an input on its assignment, and it is accepted.
    fn does(&mut self, name: &str, seat: u16, doing: Doing) -> &mut Self {
        let token = self.run.seat(seat).and_then(Seat::held).unwrap().token;
        let word = Input::Act(ClaimAct { device: device(name), seat, token }, doing.clone()).word();
        self.told(name, seat, token.0, word, Told::Done { token: Some(token.0) });
        self.input(&Input::Act(ClaimAct { device: device(name), seat, token }, doing))
    }

    /// A device's request now, and the answer to it.
    fn told(&mut self, name: &str, seat: u16, token: i64, word: Word, told: Told) -> &mut Self {
        let sent = i64::try_from(self.now).unwrap();
        let (device, run) = (name.to_owned(), "run-1".to_owned());
        self.acts.push(Act { device, run, seat, token, word, sent, answered: sent + 5, told });
        self
    }

    fn finish(&mut self, name: &str, seat: u16) -> &mut Self {
        self.does(name, seat, Doing::Accept).pass(10).does(name, seat, Doing::Start).pass(10);
        self.does(name, seat, Doing::Complete { output: RawJson::null() })
    }

    /// The first holder falls silent, the second one ends the run.
    fn taken_over() -> Self {
        let mut story = Self::new();
        story.assign(0, "a").pass(10).does("a", 0, Doing::Accept).pass(10).does("a", 0, Doing::Start);
        story.pass(100).does("a", 0, Doing::Progress(Progress { step: 1, total: 2, note: None }));
        story.pass(2_900).input(&Input::HeartbeatTimeout { seat: 0 }).assign(0, "b").pass(20).finish("b", 0);
        story
    }

    fn seen(&self) -> RunSeen {
        RunSeen {
            id: "run-1".to_owned(),
            status: self.run.status(),
            assign: self.run.assign,
            settings: self.run.settings.clone(),
            seats: self.run.seats.iter().map(seat_seen).collect(),
            execution: None,
            log: self.log.clone(),
        }
    }

    fn evidence(&self) -> Evidence {
        let clients =
            Written { acts: self.acts.clone(), runs: ["run-1".to_owned()].into(), ..Written::default() };
        let bounds = Bounds { monitor: 1_000, allowance: 500, clock: 50, write: 0 };
        Evidence { clients, runs: vec![self.seen()], executions: Vec::new(), bounds }
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Duration::from_millis(millis))
}

fn seat_seen(seat: &Seat) -> SeatSeen {
    let held = match &seat.state {
        SeatState::Completed { held, .. } => Some(held),
        SeatState::Failed { last, .. } => last.as_ref(),
        SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. } => seat.held(),
    };
    let error = match &seat.state {
        SeatState::Failed { failure, .. } => Some((failure.kind.to_string(), failure.message.clone())),
        SeatState::Completed { .. }
        | SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. } => None,
    };
    SeatSeen {
        status: seat.status(),
        device: held.map(|held| held.device.to_string()),
        token: held.map(|held| held.token.0),
        error,
        previous: seat.previous.clone(),
    }
}

fn found(evidence: &Evidence) -> Vec<Rule> {
    let findings = all(evidence);
    for finding in &findings {
        println!("{finding}");
    }
    let mut rules: Vec<Rule> = findings.into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn a_sound_history_is_let_pass() {
    assert_eq!(found(&Story::taken_over().evidence()), []);
    let mut two = Story::of(2);
    two.assign(0, "a").assign(1, "b").pass(5).finish("a", 0).finish("b", 1);
    assert_eq!(found(&two.evidence()), []);
    let mut failed = Story::new();
    let failure = Failure { kind: FailureKind::Error, message: "broken".to_owned(), class: None };
    failed.assign(0, "a").pass(5).does("a", 0, Doing::Accept).pass(5);
    failed.does("a", 0, Doing::Fail { failure, retryable: false });
    assert_eq!(found(&failed.evidence()), []);
}

#[test]
fn a_run_that_did_not_end_is_found() {
    let mut story = Story::new();
    story.assign(0, "a").pass(5).does("a", 0, Doing::Accept);
    assert_eq!(found(&story.evidence()), [Rule::Ended]);
}

#[test]
fn a_run_that_is_gone_is_found() {
    let mut evidence = Story::taken_over().evidence();
    evidence.clients.runs.insert("run-2".to_owned());
    assert_eq!(found(&evidence), [Rule::Ended]);
}

#[test]
fn a_failure_without_a_reason_is_found() {
    let mut story = Story::new();
    story.assign(0, "a").pass(5).input(&Input::Cancel { reason: None });
    let mut evidence = story.evidence();
    assert_eq!(found(&evidence), []);
    evidence.runs[0].seats[0].error = Some(("cancelled".to_owned(), String::new()));
    assert_eq!(found(&evidence), [Rule::Ended]);
}

#[test]
fn a_late_completion_that_is_taken_is_found() {
    let mut story = Story::taken_over();
    story.pass(50).told("a", 0, 1, Word::Complete, Told::Refused { kind: "not-yours".to_owned() });
    assert_eq!(found(&story.evidence()), []);
    story.told("a", 0, 1, Word::Complete, Told::Done { token: None });
    assert_eq!(found(&story.evidence()), [Rule::Tokens]);
}

#[test]
fn a_repeated_completion_is_let_pass() {
    let mut story = Story::taken_over();
    story.pass(50_000).told("b", 0, 2, Word::Complete, Told::Done { token: None });
    assert_eq!(found(&story.evidence()), []);
}

#[test]
fn progress_under_a_token_that_has_passed_on_is_found() {
    let mut story = Story::taken_over();
    story.pass(500).told("a", 0, 1, Word::Progress, Told::Done { token: Some(1) });
    assert!(found(&story.evidence()).contains(&Rule::Tokens));
}

#[test]
fn two_devices_that_are_both_told_yes_are_found_without_the_log() {
    let mut story = Story::taken_over();
    let mut evidence = story.evidence();
    // As if the log had been written afterwards: only the devices' records show it.
    story.told("a", 0, 1, Word::Heartbeat, Told::Done { token: Some(1) });
    story.pass(40).told("a", 0, 1, Word::Heartbeat, Told::Done { token: Some(1) });
    evidence.clients.acts = story.acts.clone();
    for act in evidence.clients.acts.iter_mut().filter(|act| act.device == "b") {
        act.sent -= 30;
        act.answered -= 30;
    }
    let findings = all(&evidence);
    assert!(findings.iter().any(|finding| finding.what.contains("both had it")), "{findings:?}");
}

#[test]
fn a_yes_after_the_end_is_found_without_the_log() {
    let mut story = Story::taken_over();
    let lenient = |story: &Story| {
        let mut evidence = story.evidence();
        evidence.bounds.write = 60_000;
        found(&evidence)
    };
    story.pass(50).told("b", 0, 2, Word::Heartbeat, Told::Refused { kind: "release".to_owned() });
    assert_eq!(lenient(&story), []);
    story.pass(50).told("b", 0, 2, Word::Heartbeat, Told::Done { token: Some(2) });
    assert_eq!(lenient(&story), [Rule::Tokens]);
}

#[test]
fn a_token_of_somebody_else_is_found() {
    let mut story = Story::taken_over();
    story.told("c", 0, 2, Word::Heartbeat, Told::Done { token: Some(2) });
    assert!(found(&story.evidence()).contains(&Rule::Tokens));
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    let mut evidence = Story::taken_over().evidence();
    for entry in evidence.runs[0].log.iter_mut().filter(|entry| entry.token == Some(Token(1))) {
        entry.token = Some(Token(3));
    }
    assert!(found(&evidence).contains(&Rule::Tokens));
}

#[test]
fn a_seat_that_is_given_away_twice_is_found() {
    let mut evidence = Story::taken_over().evidence();
    evidence.runs[0].log.retain(|entry| entry.word != Word::HeartbeatTimeout);
    let rules = found(&evidence);
    assert!(rules.contains(&Rule::Tokens) && rules.contains(&Rule::History), "{rules:?}");
}

#[test]
fn a_device_with_two_seats_of_a_run_is_found() {
    let mut two = Story::of(2);
    two.assign(0, "a").assign(1, "b").pass(5).finish("a", 0).finish("b", 1);
    let mut evidence = two.evidence();
    for entry in evidence.runs[0].log.iter_mut().filter(|entry| entry.seat == Some(1)) {
        entry.device = entry.device.as_ref().map(|_| device("a"));
    }
    assert!(found(&evidence).contains(&Rule::Tokens));
}

#[test]
fn a_completion_that_nobody_sent_is_found() {
    let mut evidence = Story::taken_over().evidence();
    evidence.clients.acts.retain(|act| act.word != Word::Complete);
    assert_eq!(found(&evidence), [Rule::Tokens]);
}

#[test]
fn a_line_that_is_not_in_the_table_is_found() {
    let mut evidence = Story::taken_over().evidence();
    for entry in evidence.runs[0].log.iter_mut().filter(|entry| entry.word == Word::Start) {
        entry.word = Word::Complete;
    }
    assert!(found(&evidence).contains(&Rule::History));
}

#[test]
fn a_line_that_is_missing_is_found() {
    let mut evidence = Story::taken_over().evidence();
    let start = evidence.runs[0].log.iter().position(|entry| entry.word == Word::Start).unwrap();
    evidence.runs[0].log.remove(start);
    assert!(found(&evidence).contains(&Rule::History));
}

#[test]
fn a_log_that_goes_back_in_time_is_found() {
    let mut evidence = Story::taken_over().evidence();
    let last = evidence.runs[0].log.last_mut().unwrap();
    last.at = last.at.minus(Duration::from_millis(200));
    assert!(found(&evidence).contains(&Rule::History));
}

#[test]
fn former_holders_that_the_log_does_not_know_are_found() {
    let mut evidence = Story::taken_over().evidence();
    evidence.runs[0].seats[0].previous[0].reason = Ended::Declined;
    assert_eq!(found(&evidence), [Rule::History]);
    let mut evidence = Story::taken_over().evidence();
    evidence.runs[0].seats[0].previous.clear();
    assert_eq!(found(&evidence), [Rule::History]);
    let mut evidence = Story::taken_over().evidence();
    evidence.runs[0].seats[0].previous[0].ended_at = at(BEGAN);
    assert_eq!(found(&evidence), [Rule::History]);
}

#[test]
fn a_silence_that_is_noticed_too_late_is_found() {
    let mut story = Story::new();
    story.assign(0, "a").pass(10).does("a", 0, Doing::Accept).pass(10).does("a", 0, Doing::Start);
    story.pass(3_600).input(&Input::HeartbeatTimeout { seat: 0 }).assign(0, "b").pass(20).finish("b", 0);
    let evidence = story.evidence();
    assert_eq!(found(&evidence), [Rule::Unowned]);
    let silent = waits(&evidence.runs).into_iter().find(|wait| wait.kind == Kind::Silent).unwrap();
    assert_eq!((silent.length(), silent.beyond()), (3_600, 1_600));
    // No process could monitor the runs.
    let mut evidence = evidence;
    evidence.clients.outages.push((silent.from + 1_000, silent.from + 1_500));
    assert_eq!(found(&evidence), []);
}

#[test]
fn a_seat_that_stays_open_is_found_and_one_of_a_paused_run_is_not() {
    let mut story = Story::new();
    story.assign(0, "a").pass(5).does("a", 0, Doing::Decline { reason: None });
    story.pass(1_600).assign(0, "b").pass(20).finish("b", 0);
    assert_eq!(found(&story.evidence()), [Rule::Unowned]);
    let mut story = Story::new();
    story.assign(0, "a").pass(5).does("a", 0, Doing::Decline { reason: None }).input(&Input::Pause);
    story.pass(9_000).input(&Input::Resume).pass(900).assign(0, "b").pass(20).finish("b", 0);
    assert_eq!(found(&story.evidence()), []);
}

#[test]
fn a_question_that_is_left_standing_and_a_rest_that_does_not_end_are_found() {
    let mut story = Story::new();
    story.assign(0, "a").pass(2_600).input(&Input::AssignmentTimeout { seat: 0 }).assign(0, "b");
    assert!(found(&story.pass(20).finish("b", 0).evidence()).contains(&Rule::Unowned));
    let rested = |length: u64| {
        let mut story = Story::new();
        story.assign(0, "a").pass(5).does("a", 0, Doing::Decline { reason: None });
        story.input(&Input::NobodyViable { seat: 0, outlook: Outlook::Declined, decision: None });
        story.pass(length).input(&Input::BackoffOver { seat: 0 }).assign(0, "a").pass(20).finish("a", 0);
        found(&story.evidence())
    };
    assert_eq!(rested(6_400), []);
    assert_eq!(rested(6_600), [Rule::Unowned]);
}

#[test]
fn a_seat_that_waits_for_room_is_not_open() {
    let mut story = Story::new();
    let busy = || Input::NobodyViable { seat: 0, outlook: Outlook::Busy, decision: None };
    story.pass(5).input(&busy()).pass(5_000).input(&Input::BackoffOver { seat: 0 }).assign(0, "a");
    story.pass(1_100).input(&Input::AssignmentTimeout { seat: 0 }).input(&busy());
    story.pass(10_000).input(&Input::BackoffOver { seat: 0 }).assign(0, "b").pass(20).finish("b", 0);
    assert_eq!(found(&story.evidence()), []);
}

fn told(names: &[&str]) -> Evidence {
    let mut evidence = Story::taken_over().evidence();
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
fn an_execution_is_told_once_and_the_truth() {
    assert_eq!(found(&told(&["make", SUCCEEDED])), []);
    assert_eq!(found(&told(&["make"])), [Rule::Settled]);
    assert_eq!(found(&told(&["make", SUCCEEDED, SUCCEEDED])), [Rule::Settled]);
    assert_eq!(found(&told(&["make", FAILED])), [Rule::Settled]);
    let mut evidence = told(&["make", SUCCEEDED]);
    evidence.runs[0].execution = None;
    assert_eq!(found(&evidence), [Rule::Settled]);
}

#[test]
fn the_end_of_a_story_is_what_the_engine_says() {
    assert_eq!(Story::taken_over().run.status(), Status::Completed);
}
