//! Properties of machines over random definitions, mailboxes and histories.

use millstream_model::document::SourceFormat;
use millstream_model::id::{AcceptNo, EventId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_workflow::definition_parser::parse;
use millstream_workflow::log::{
    EventOrigin, EventOutcome, ExecutionState, MailboxEvent, MailboxState, StateEntry, Transition,
    TransitionDecision,
};
use millstream_workflow::machine::{
    Machine, RecordedTransition, create_execution, decide_mailbox, evolve, redecide_history, step,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use uuid::Uuid;

const STATES: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];
const EVENTS: [&str; 5] = ["e0", "e1", "e2", "e3", "e4"];

fn pick(from: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(from).prop_map(str::to_owned)
}

/// Conditions that are true, are false, or fail.
fn guard() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "true",
            "context.n > 3",
            "event.payload.x < 5",
            "has(event.payload.y) && event.payload.y",
            "context.n / event.payload.x > 0",
            "event.payload.list.exists(i, i > context.n)",
            "now > event.time",
            "context.text + event.payload.x == 'a'",
            "9223372036854775807 + context.n > 0",
        ][..],
    )
    .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "context.n + 1",
            "event.payload",
            "event.payload.x",
            "[context.n, event.name]",
            "{'k': event.time}",
            "context.n * 1000000007",
            "context.text + context.text",
            "size(context.text)",
            "now",
        ][..],
    )
    .prop_map(str::to_owned)
}

/// An alternative; `guarded` ones may be followed by another.
fn alternative(guard: impl Strategy<Value = Option<String>>) -> impl Strategy<Value = String> {
    let set = prop::collection::btree_map(prop::sample::select(&["n", "text", "m"][..]), value(), 0..3);
    let actions = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3);
    (guard, prop::option::of(pick(&STATES)), set, actions).prop_map(|(guard, to, set, actions)| {
        let mut parts = Vec::new();
        if let Some(guard) = guard {
            parts.push(format!("\"if\": {guard:?}"));
        }
        if let Some(to) = to {
            parts.push(format!("\"to\": {to:?}"));
        }
        let set: Vec<_> = set.iter().map(|(key, value)| format!("{key:?}: {value:?}")).collect();
        parts.push(format!("\"set\": {{{}}}", set.join(", ")));
        parts.push(format!("\"do\": {actions:?}"));
        format!("{{{}}}", parts.join(", "))
    })
}

fn alternatives() -> impl Strategy<Value = String> {
    let guarded = prop::collection::vec(alternative(guard().prop_map(Some)), 0..2);
    (guarded, alternative(prop::option::of(guard()))).prop_map(|(mut list, last)| {
        list.push(last);
        format!("[{}]", list.join(", "))
    })
}

prop_compose! {
    fn state()(
        on in prop::collection::btree_map(pick(&EVENTS), alternatives(), 1..4),
        defer in prop::sample::subsequence(EVENTS.to_vec(), 0..4),
        timer in prop::option::of(pick(&EVENTS)),
    ) -> String {
        let defer: Vec<_> = defer.into_iter().filter(|event| !on.contains_key(*event)).collect();
        let ways: Vec<_> = STATES
            .iter()
            .chain(&["hub"])
            .map(|to| format!("{{\"if\": \"event.payload.x == '{to}'\", \"to\": {to:?}}}"))
            .collect();
        let mut on: Vec<_> = on.iter().map(|(event, list)| format!("{event:?}: {list}")).collect();
        on.push(format!("\"go\": [{}]", ways.join(", ")));
        let after = timer.map_or(String::new(), |send| {
            format!(", \"after\": [{{\"in\": \"5s\", \"send\": {send:?}}}]")
        });
        format!("{{\"on\": {{{}}}, \"defer\": {defer:?}{after}}}", on.join(", "))
    }
}

prop_compose! {
    /// Almost always valid; `hub` handles every event, and every state is reachable.
    fn definition()(states in prop::collection::vec(state(), 4), ending in any::<bool>()) -> String {
        let mut all: Vec<_> =
            states.iter().enumerate().map(|(n, state)| format!("\"s{n}\": {state}")).collect();
        all.push(format!("\"s4\": {{\"final\": {}}}", if ending { "true" } else { "\"failed\"" }));
        let hub: Vec<_> = EVENTS.iter().map(|event| format!("{event:?}: {{\"to\": \"s0\"}}")).collect();
        all.push(format!("\"hub\": {{\"on\": {{{}}}}}", hub.join(", ")));
        format!(
            "{{\"name\": \"random\", \"initial\": \"s0\", \"timeout\": \"1h\",
               \"context\": {{\"n\": 1, \"text\": \"a\"}}, \"states\": {{{}}},
               \"actions\": {{\"a\": {{\"log\": \"n is ${{context.n}}\"}},
                             \"b\": {{\"noop\": \"event.payload.x\"}},
                             \"c\": {{\"noop\": {{\"v\": \"context.n\"}}, \"on_success\": \"go\"}}}}}}",
            all.join(", ")
        )
    }
}

fn payload() -> impl Strategy<Value = RawJson> {
    prop::sample::select(
        &[
            "null",
            "{}",
            r#"{"x":1,"y":true,"list":[1,2,30]}"#,
            r#"{"x":7.5,"y":false,"list":[]}"#,
            r#"{"x":"s3","y":1}"#,
            r#"{"x":"s1"}"#,
            r#"{"x":"s2"}"#,
            r#"{"x":"hub"}"#,
            r#"{"x":0,"list":["a"]}"#,
            "[1,2]",
            r#"{"x":1e400}"#,
        ][..],
    )
    .prop_map(|text| RawJson::parse(text).unwrap())
}

fn mailbox() -> impl Strategy<Value = Vec<MailboxEvent>> {
    let names =
        &["e0", "e1", "e2", "e3", "e4", "e0", "e1", "e2", "e3", "e4", "go", "go", "go", "millstream.cancel"]
            [..];
    let one = (prop::sample::select(names), payload(), 0i64..6, prop::bool::weighted(0.2));
    prop::collection::vec(one, 0..40).prop_map(|events| {
        let waiting =
            |(n, (name, payload, armed, timer)): (usize, (&str, RawJson, i64, bool))| MailboxEvent {
                event_id: EventId(Uuid::from_u128(n as u128 + 1)),
                accept_no: AcceptNo(n as i64 + 1),
                name: Name::parse(name).unwrap(),
                payload,
                accepted_at: Timestamp::from_millis(1_000 + n as i64),
                origin: if timer {
                    EventOrigin::Timer { armed_seq: Seq(armed + 1) }
                } else {
                    EventOrigin::Posted
                },
                kept: MailboxState::Undecided,
                attempts: 0,
                traceparent: None,
            };
        events.into_iter().enumerate().map(waiting).collect()
    })
}

fn now(n: i64) -> Timestamp {
    Timestamp::from_millis(2_000_000 + n)
}

fn begun(machine: &Machine) -> (Transition, ExecutionState) {
    let (created, state) = create_execution(machine, EventId(Uuid::nil()), &RawJson::null(), now(0)).unwrap();
    (created.transition, state)
}

fn transitions(outcomes: &[(EventId, EventOutcome)]) -> Vec<Transition> {
    outcomes
        .iter()
        .filter_map(|(_, outcome)| match outcome {
            EventOutcome::Applied(applied) => Some(applied.transition.clone()),
            EventOutcome::Rejected { .. } | EventOutcome::Deferred => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replay_equals_incremental_evolution(source in definition(), mailbox in mailbox()) {
        let Ok(definition) = parse(&source, SourceFormat::Json) else { return Ok(()) };
        let machine = Machine::compile(definition).unwrap();
        let (first, state) = begun(&machine);
        let visit = decide_mailbox(&machine, state, &mailbox, PauseState::Running, now(5));
        let mut log = vec![first];
        log.extend(transitions(&visit.outcomes));
        let replayed = log.iter().fold(None, |state, transition| Some(evolve(state, transition))).unwrap();
        prop_assert_eq!(&replayed, &visit.state);
        // Sequence numbers have no gaps, time never goes back, and `entered_seq` is the last state entry.
        for (n, transition) in log.iter().enumerate() {
            prop_assert_eq!(transition.seq, Seq(n as i64 + 1));
        }
        prop_assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at));
        let last_entry = log.iter().rfind(|t| t.decision.entered == StateEntry::Entered).unwrap();
        prop_assert_eq!(visit.state.entered_seq, last_entry.seq);
    }

    #[test]
    fn stored_log_replays_the_same(source in definition(), mailbox in mailbox()) {
        let Ok(definition) = parse(&source, SourceFormat::Json) else { return Ok(()) };
        let machine = Machine::compile(definition).unwrap();
        let visit = decide_mailbox(&machine, begun(&machine).1, &mailbox, PauseState::Running, now(5));
        let stored: ExecutionState = RawJson::from_value(&visit.state).decode().unwrap();
        prop_assert_eq!(&stored, &visit.state);
        for transition in transitions(&visit.outcomes) {
            let stored: TransitionDecision = RawJson::from_value(&transition.decision).decode().unwrap();
            prop_assert_eq!(stored, transition.decision);
        }
    }

    #[test]
    fn decisions_survive_canonical_form(source in definition(), mailbox in mailbox()) {
        let Ok(definition) = parse(&source, SourceFormat::Json) else { return Ok(()) };
        let again = parse(&definition.canonical_json(), SourceFormat::Json).unwrap();
        prop_assert_eq!(&again, &definition);
        prop_assert_eq!(again.checksum(), definition.checksum());
        let (machine, other) = (Machine::compile(definition).unwrap(), Machine::compile(again).unwrap());
        let (_, state) = begun(&machine);
        for event in &mailbox {
            prop_assert_eq!(step(&machine, &state, event, now(1)), step(&other, &state, event, now(1)));
        }
        let one = decide_mailbox(&machine, state.clone(), &mailbox, PauseState::Running, now(1));
        prop_assert_eq!(one, decide_mailbox(&other, state, &mailbox, PauseState::Running, now(1)));
    }

    #[test]
    fn mailbox_slicing_changes_no_decision(source in definition(), mailbox in mailbox(), cut in 0usize..40) {
        let Ok(definition) = parse(&source, SourceFormat::Json) else { return Ok(()) };
        let machine = Machine::compile(definition).unwrap();
        let (_, state) = begun(&machine);
        let whole = decide_mailbox(&machine, state.clone(), &mailbox, PauseState::Running, now(1));
        let cut = cut.min(mailbox.len());
        let first = decide_mailbox(&machine, state, &mailbox[..cut], PauseState::Running, now(1));
        // Events that the first visit deferred are offered to the second, marked as deferred.
        let kept = |event: &&MailboxEvent| first.outcomes.contains(&(event.event_id, EventOutcome::Deferred));
        let mut rest: Vec<MailboxEvent> =
            mailbox.iter().filter(kept).map(|event| MailboxEvent { kept: MailboxState::Deferred, ..event.clone() }).collect();
        rest.extend_from_slice(&mailbox[cut..]);
        let second = decide_mailbox(&machine, first.state.clone(), &rest, PauseState::Running, now(1));
        prop_assert_eq!(&second.state, &whole.state);
        let mut log = transitions(&first.outcomes);
        log.extend(transitions(&second.outcomes));
        prop_assert_eq!(log, transitions(&whole.outcomes));
    }

    #[test]
    fn every_event_is_decided_or_deferred(source in definition(), mailbox in mailbox()) {
        let Ok(definition) = parse(&source, SourceFormat::Json) else { return Ok(()) };
        let machine = Machine::compile(definition).unwrap();
        let visit = decide_mailbox(&machine, begun(&machine).1, &mailbox, PauseState::Running, now(1));
        let mut decided: Vec<_> = visit.outcomes.iter().map(|(id, _)| *id).collect();
        decided.sort();
        let mut sent: Vec<_> = mailbox.iter().map(|event| event.event_id).collect();
        sent.sort();
        prop_assert_eq!(decided, sent);
        let kept = visit.outcomes.iter().any(|(_, outcome)| *outcome == EventOutcome::Deferred);
        prop_assert!(!(kept && visit.state.phase.is_ended()), "no event stays deferred past the end");
    }

    #[test]
    fn random_history_redecides_the_same(source in definition(), mailbox in mailbox()) {
        let Ok(definition) = parse(&source, SourceFormat::Json) else { return Ok(()) };
        let machine = Machine::compile(definition).unwrap();
        let (first, state) = begun(&machine);
        let visit = decide_mailbox(&machine, state, &mailbox, PauseState::Running, now(5));
        let mut history = vec![RecordedTransition { transition: first, payload: RawJson::null(), accepted_at: now(0) }];
        for transition in transitions(&visit.outcomes) {
            let event = mailbox.iter().find(|event| event.event_id == transition.event_id).unwrap();
            let (payload, accepted_at) = (event.payload.clone(), event.accepted_at);
            history.push(RecordedTransition { transition, payload, accepted_at });
        }
        prop_assert_eq!(redecide_history(&machine, &history), vec![]);
    }
}

#[test]
fn random_definitions_are_mostly_valid() {
    // Otherwise the properties above would hold vacuously.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut valid, mut moved, mut kept) = (0, 0, 0);
    for _ in 0..200 {
        let source = definition().new_tree(&mut runner).unwrap().current();
        let mailbox = mailbox().new_tree(&mut runner).unwrap().current();
        let Ok(definition) = parse(&source, SourceFormat::Json) else { continue };
        valid += 1;
        let machine = Machine::compile(definition).unwrap();
        let visit = decide_mailbox(&machine, begun(&machine).1, &mailbox, PauseState::Running, now(1));
        moved += usize::from(visit.state.seq > Seq(2));
        kept += usize::from(visit.outcomes.iter().any(|(_, outcome)| *outcome == EventOutcome::Deferred));
    }
    assert!(valid > 190 && moved > 60 && kept > 8, "valid {valid}, moved {moved}, kept {kept}");
}
