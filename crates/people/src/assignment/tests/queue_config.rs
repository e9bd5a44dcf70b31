//! Parsing of queue configurations, and the problems it reports.

use std::time::Duration;

use millstream_model::document::SourceFormat;

use super::fixture::{name, queue};
use crate::assignment::QueueConfig;
use crate::assignment::queue::{EligiblePersons, EscalationTarget};

fn told(rest: &str) -> Vec<String> {
    let source = format!("{{name: q, {rest}}}");
    let problems = QueueConfig::parse(&source, SourceFormat::Yaml).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

#[test]
fn queue_config_requires_only_a_name() {
    let plain = queue("");
    assert_eq!(plain, QueueConfig::with_defaults(name("q")));
    assert_eq!(plain.timeout, Duration::from_secs(3600));
    assert_eq!(plain.pre_assignment_timeout, Some(Duration::from_secs(300)));
    assert_eq!((plain.max_attempts_per_person, plain.max_attempts_total), (3, 5));
    assert!(plain.reassign_expired && plain.reassign_skipped && !plain.skip_requires_reason);
    assert_eq!((plain.people, plain.overlap, plain.per_person.open), (EligiblePersons::Anyone, 1, 1));
    assert_eq!(QueueConfig::parse("{}", SourceFormat::Json).unwrap_err().to_string(), "name: is missing");
}

#[test]
fn stored_queue_config_is_read_back() {
    let full = queue(
        "timeout_seconds: 60, pre_assignment_timeout: null, max_attempts_per_person: 2, max_attempts_total: 9,
         reassign_expired: false, reassign_skipped: false, skip_requires_reason: true, people: [ann, bob],
         skills: [latin], overlap: 2, per_person: {open: 3, total: 100}, priority: -5, due: 36h,
         escalate: {queue: seniors}, schema: {type: object, required: [a]}, agreement: answer.a,
         rules: [{if: answer.a > 1, message: too much, path: a}]",
    );
    assert_eq!(full.due, Some(Duration::from_secs(36 * 3600)));
    assert_eq!(full.escalate, Some(EscalationTarget::Queue(name("seniors"))));
    assert_eq!(full.schema.as_ref().unwrap().as_str(), r#"{"required":["a"],"type":"object"}"#);
    let again = QueueConfig::parse_stored(full.to_json().as_str());
    assert_eq!(again.as_ref(), Ok(&full), "{}", full.to_json());
    let plain = queue("escalate: {event: late}");
    assert_eq!(QueueConfig::parse(plain.to_json().as_str(), SourceFormat::Json), Ok(plain));
}

#[test]
fn old_name_of_attempts_per_person_is_alias() {
    let (current, old) = (queue("max_attempts_per_person: 2"), queue("max_attempts_per_labeler: 2"));
    assert_eq!((current.max_attempts_per_person, &current), (2, &old));
    assert_eq!(
        told("max_attempts_per_person: 2, max_attempts_per_labeler: 2"),
        ["max_attempts_per_labeler: is an alias of max_attempts_per_person; give only one of the two"]
    );
    assert_eq!(told("max_attempts_per_labeler: 0"), ["max_attempts_per_labeler: must be from 1 to 1000"]);
}

#[test]
fn stored_queue_config_keeps_its_text() {
    let config = queue(
        "timeout_seconds: 1m, max_attempts_per_person: 2, people: [ann], due: 1h, escalate: {event: late}",
    );
    let stored = r#"{"format":1,"name":"q","timeout_seconds":60,"pre_assignment_timeout":300,"max_attempts_per_labeler":2,"max_attempts_total":5,"reassign_expired":true,"reassign_skipped":true,"skip_requires_reason":false,"people":["ann"],"skills":[],"overlap":1,"per_person":{"open":1,"total":null},"priority":0,"due":3600,"escalate":{"event":"late"},"schema":null,"rules":[],"agreement":"answer"}"#;
    assert_eq!(config.to_json().as_str(), stored, "earlier releases read this text");
    let shown = stored.replace("max_attempts_per_labeler", "max_attempts_per_person");
    assert_eq!(QueueConfig::parse(&shown, SourceFormat::Json), Ok(config));
}

#[test]
fn queue_config_problems_name_their_path() {
    assert_eq!(
        told(
            "timeout_secs: 5, timeout_seconds: 0, pre_assignment_timeout: soon, overlap: 3, max_attempts_total: 2,
             reassign_expired: yes please, people: [ann, ann, b c], priority: 9999999999, due: -1,
             escalate: {queue: q}, schema: 7, per_person: {open: 0, most: 1},
             rules: [{if: answr.a, message: m}, {message: m}], agreement: answer +"
        ),
        [
            "timeout_secs: unknown field (did you mean \"timeout_seconds\"?)",
            "timeout_seconds: must be a number of seconds from 1 to a hundred years",
            "pre_assignment_timeout: \"soon\" is not a duration (write it like 250ms, 15s, 30m, 12h, 30d or 1h30m)",
            "due: must be a number of seconds from 1 to a hundred years",
            "max_attempts_total: is less than the overlap of 3 people",
            "reassign_expired: must be true or false, not a string",
            "people[1]: \"ann\" is in the list twice",
            "people[2]: the name of a person may contain only A-Z, a-z, 0-9, '_', '.', ':' and '-'",
            "per_person.most: unknown field: known fields are open, total",
            "per_person.open: must be from 1 to 1000",
            "priority: must be from -1000000 to 1000000",
            "escalate.queue: an item cannot be escalated to the queue that it is in",
            "schema: must be a JSON Schema, which is a map, not a number",
            "rules[0].if: unknown name \"answr\" (did you mean \"answer\"?): expressions begin with answer, item, person",
            "rules[1].if: is missing",
            "agreement: expected a value, found the end (at column 9)",
        ]
    );
    assert_eq!(told("people: [a], overlap: 2"), ["people: has 1 people, the overlap needs 2 different ones"]);
    assert_eq!(told("people: everyone"), ["people: must be anyone or a list of people, not \"everyone\""]);
    assert_eq!(told("escalate: {}"), ["escalate: must name either a queue or an event"]);
    assert_eq!(told("timeout_seconds: null").len(), 1);
    assert_eq!(told("format: 2"), ["format: this version reads format 1 only"]);
}
