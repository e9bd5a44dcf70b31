//! Tests of the mapping from a turn to a commit: events in, rows out.

use std::sync::Arc;

use millstream_model::document::SourceFormat;
use millstream_model::id::{AcceptNo, DefinitionRef, ExecutionId, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_workflow::definition_parser;
use millstream_workflow::log::MailboxState;
use uuid::Uuid;

use millstream_workflow::log::EventOrigin;

use super::*;

const DEFINITION: &str = r#"
name: job
initial: open
timeout: 1h
context: { x: 1 }
states:
  open:
    on:
      go: { to: busy, do: [say, call, last] }
      bad: { do: [broken, after, later] }
      worse: { do: [fatal] }
      stay: { set: { x: context.x + 1 } }
      said: { }
    after: [{ in: 1m, send: expire }]
    defer: [close]
  busy:
    on: { close: { to: closed }, expire: { to: closed }, on: { to: open } }
    after: [{ in: 2m, send: expire }]
  closed: { final: true }
actions:
  say: { log: "hello" }
  call: { noop: 1, needs: [say] }
  last: { noop: 2, needs: [call] }
  broken: { noop: event.payload.no.such, on_failure: said }
  after: { noop: 1, needs: [broken] }
  later: { noop: 1, needs: [after] }
  fatal: { noop: event.payload.no.such }
"#;

struct TurnCase {
    program: ExecutionProgram,
    state: ExecutionState,
    ids: u128,
}

fn id(number: u128) -> EventId {
    EventId(Uuid::from_u128(number))
}

fn definition() -> DefinitionRef {
    DefinitionRef { name: Name::parse("d").unwrap(), version: 1 }
}

fn execution() -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("x").unwrap() }
}

impl TurnCase {
    fn new() -> Self {
        let definition = definition_parser::parse(DEFINITION, SourceFormat::Yaml).unwrap();
        let machine = Machine::compile(definition).unwrap();
        let (_, state) =
            machine::create_execution(&machine, id(1), &RawJson::null(), Timestamp::EPOCH).unwrap();
        Self { program: ExecutionProgram::Machine(Arc::new(machine)), state, ids: 1000 }
    }

    fn decide(&mut self, names: &[&str]) -> TurnCommit {
        let waiting = |(at, name): (usize, &&str)| MailboxEvent {
            event_id: id(10 + at as u128),
            accept_no: AcceptNo(10 + at as i64),
            name: Name::parse(name).unwrap(),
            payload: RawJson::null(),
            accepted_at: Timestamp::EPOCH,
            origin: EventOrigin::Posted,
            kept: MailboxState::Undecided,
            attempts: 0,
            traceparent: Some("trace".to_owned()),
        };
        let mailbox: Vec<MailboxEvent> = names.iter().enumerate().map(waiting).collect();
        let before = StateBeforeTurn::of_state(execution(), definition(), Seq(1), &self.state);
        let turn =
            self.program.decide_mailbox(self.state.clone(), &mailbox, PauseState::Running, Timestamp::EPOCH);
        let mut new_id = || {
            self.ids += 1;
            id(self.ids)
        };
        build_commit(Some(&self.program), before, turn, &mailbox, &mut new_id).unwrap()
    }
}

fn statuses_of(decision: &TurnCommit) -> Vec<(&str, ActionStatus)> {
    decision.commit.actions.iter().map(|row| (row.key.action.as_str(), row.status)).collect()
}

fn event_status(decision: &TurnCommit, at: usize) -> (EventStatus, Option<&str>) {
    let EventVerdict::Applied { status, error, .. } = &decision.commit.decided[at].verdict else {
        panic!("not applied: {:?}", decision.commit.decided)
    };
    (*status, error.as_deref())
}

#[test]
fn inline_actions_release_dependents_in_commit() {
    let decision = TurnCase::new().decide(&["go"]);
    assert_eq!(
        statuses_of(&decision),
        [("say", ActionStatus::Succeeded), ("call", ActionStatus::Ready), ("last", ActionStatus::Waiting)]
    );
    assert!(decision.commit.actions[1].scope.is_some(), "rendered when it is performed");
    assert_eq!(event_status(&decision, 0), (EventStatus::Processing, None));
    assert_eq!(decision.lines.len(), 1);
    assert!(decision.commit.emitted.is_empty());
}

#[test]
fn unrenderable_action_fails_and_skips_dependents() {
    let decision = TurnCase::new().decide(&["bad"]);
    assert_eq!(
        statuses_of(&decision),
        [
            ("broken", ActionStatus::Failed),
            ("after", ActionStatus::Skipped),
            ("later", ActionStatus::Skipped)
        ]
    );
    assert_eq!(event_status(&decision, 0), (EventStatus::Completed, None), "on_failure handles it");
    let emitted = &decision.commit.emitted[0];
    assert_eq!((emitted.name.as_str(), emitted.actor.as_deref()), ("said", Some("action:broken")));
    assert_eq!(emitted.traceparent.as_deref(), Some("trace"));
}

#[test]
fn unhandled_action_failure_fails_event() {
    let decision = TurnCase::new().decide(&["worse"]);
    let (status, error) = event_status(&decision, 0);
    assert_eq!(status, EventStatus::Failed);
    assert!(error.unwrap().contains("fatal"), "{error:?}");
    assert!(decision.commit.emitted.is_empty());
}

#[test]
fn state_change_replaces_timers() {
    let decision = TurnCase::new().decide(&["go"]);
    assert_eq!(decision.commit.cancelled_timers, [Seq(1)]);
    let armed: Vec<_> = decision.commit.timers.iter().map(|timer| timer.armed_seq).collect();
    assert_eq!(armed, [Seq(2)]);
}

#[test]
fn timers_of_left_state_are_dropped() {
    let decision = TurnCase::new().decide(&["go", "on", "go"]);
    let armed: Vec<_> = decision.commit.timers.iter().map(|timer| timer.armed_seq).collect();
    assert_eq!(armed, [Seq(4)]);
    assert_eq!(decision.commit.cancelled_timers, [Seq(1)]);
    assert_eq!(decision.commit.transitions.len(), 3);
}

#[test]
fn internal_transition_keeps_timers() {
    let decision = TurnCase::new().decide(&["stay"]);
    assert!(decision.commit.timers.is_empty());
    assert!(decision.commit.cancelled_timers.is_empty());
    assert_eq!(event_status(&decision, 0), (EventStatus::Completed, None));
}

#[test]
fn final_state_cancels_timers_and_deferred_events() {
    let decision = TurnCase::new().decide(&["close", "go", "stay"]);
    let verdicts: Vec<_> = decision
        .commit
        .decided
        .iter()
        .map(|decided| match &decided.verdict {
            EventVerdict::Applied { to, .. } => format!("to {to}"),
            EventVerdict::Rejected { state, .. } => format!("rejected in {state}"),
            EventVerdict::Deferred => "deferred".to_owned(),
        })
        .collect();
    assert_eq!(verdicts, ["to busy", "to closed", "rejected in closed"]);
    assert_eq!(decision.commit.cancelled_timers, [ArmedTimer::EXECUTION_TIMEOUT, Seq(1)]);
    assert!(decision.commit.timers.is_empty());
    assert_eq!(decision.commit.open_actions, OpenActions::Keep, "actions of the last transition still run");
}

#[test]
fn cancellation_cancels_open_actions() {
    let decision = TurnCase::new().decide(&["millstream.cancel"]);
    assert_eq!(decision.commit.open_actions, OpenActions::Cancel);
    assert_eq!(decision.commit.state.phase, ExecutionPhase::Cancelled);
}

#[test]
fn cancellation_cancels_actions_of_same_commit() {
    let decision = TurnCase::new().decide(&["go", "millstream.cancel"]);
    assert_eq!(
        statuses_of(&decision),
        [
            ("say", ActionStatus::Succeeded),
            ("call", ActionStatus::Cancelled),
            ("last", ActionStatus::Cancelled)
        ]
    );
    assert_eq!(event_status(&decision, 0), (EventStatus::Completed, None), "nothing is left to wait for");
    assert_eq!(decision.commit.open_actions, OpenActions::Cancel);
}

#[test]
fn failed_action_stays_failed_after_cancellation() {
    let decision = TurnCase::new().decide(&["worse", "millstream.cancel"]);
    assert_eq!(event_status(&decision, 0).0, EventStatus::Failed);
    assert_eq!(statuses_of(&decision), [("fatal", ActionStatus::Failed)]);
}

#[test]
fn rejection_is_fenced_without_snapshot() {
    let decision = TurnCase::new().decide(&["expire"]);
    assert_eq!((decision.commit.expected, decision.commit.state.seq), (Seq(1), Seq(1)));
    assert_eq!(decision.commit.snapshot, SnapshotWrite::Skip);
    assert!(matches!(decision.commit.decided[0].verdict, EventVerdict::Rejected { .. }));
}
