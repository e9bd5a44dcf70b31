//! Reads the configuration of a queue; reports every problem at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::limits::{MAX_ATTEMPTS, MAX_OPEN, MAX_OVERLAP, MAX_PEOPLE, MAX_PRIORITY, MAX_RULES, MAX_SKILLS};
use super::queue::{Eligible, Escalate, PerPerson, QueueConfig, Rule};
use crate::definition::Format;
use crate::definition::document::{self, Node};
use crate::definition::read::refuse_huge;
use crate::definition::reader::{Fields, Reader};
use crate::duration;
use crate::expr::{Program, Vocabulary};
use crate::id::{Name, PersonId};
use crate::problem::{Problem, Problems};
use crate::raw::RawJson;

const FIELDS: &[&str] = &[
    "format",
    "name",
    "timeout_seconds",
    "pre_assignment_timeout",
    "max_attempts_per_labeler",
    "max_attempts_total",
    "reassign_expired",
    "reassign_skipped",
    "skip_requires_reason",
    "people",
    "skills",
    "overlap",
    "per_person",
    "priority",
    "due",
    "escalate",
    "schema",
    "rules",
    "agreement",
];

/// `name` is the name known from the request, so that the document may omit it.
pub(super) fn parse(source: &str, format: Format, name: Option<&Name>) -> Result<QueueConfig, Problems> {
    let document = document::parse(source, format)?;
    let mut reader = Reader::default();
    let config = read(&mut reader, &document, name);
    if reader.problems.is_empty() { Ok(config) } else { Err(Problems(reader.problems)) }
}

fn read(reader: &mut Reader, document: &Node, given: Option<&Name>) -> QueueConfig {
    let unnamed = || Name::reserved("millstream.queue");
    let mut config = QueueConfig::plain(given.cloned().unwrap_or_else(unnamed));
    let Some(fields) = reader.fields("", document, FIELDS) else { return config };
    if let Some(format) = number(reader, &fields, "format", 1..=i64::from(u8::MAX))
        && format != u32::from(QueueConfig::FORMAT)
    {
        reader.problem("format", format!("this version reads format {} only", QueueConfig::FORMAT));
    }
    match fields.get("name") {
        Some((path, node)) => {
            let said = reader.name(&path, node);
            if let (Some(given), Some(said)) = (given, &said)
                && given != said
            {
                reader
                    .problem(path, format!("is {:?}, this is the queue {:?}", said.as_str(), given.as_str()));
            }
            config.name = said.unwrap_or(config.name);
        }
        None if given.is_some() => {}
        None => reader.problem("name", "is missing"),
    }
    if let Some(Some(timeout)) = time(reader, &fields, "timeout_seconds", Nothing::Refused) {
        config.timeout = timeout;
    }
    if let Some(timeout) = time(reader, &fields, "pre_assignment_timeout", Nothing::Allowed) {
        config.pre_assignment_timeout = timeout;
    }
    if let Some(due) = time(reader, &fields, "due", Nothing::Allowed) {
        config.due = due;
    }
    if let Some(attempts) = number(reader, &fields, "max_attempts_per_labeler", 1..=MAX_ATTEMPTS) {
        config.max_attempts_per_labeler = attempts;
    }
    if let Some(overlap) = number(reader, &fields, "overlap", 1..=MAX_OVERLAP) {
        config.overlap = overlap;
        config.max_attempts_total = QueueConfig::ATTEMPTS_TOTAL * overlap;
    }
    if let Some(attempts) = number(reader, &fields, "max_attempts_total", 1..=MAX_ATTEMPTS) {
        config.max_attempts_total = attempts;
        if attempts < config.overlap {
            let message = format!("is less than the overlap of {} people", config.overlap);
            reader.problem("max_attempts_total", message);
        }
    }
    for (field, flag) in [
        ("reassign_expired", &mut config.reassign_expired),
        ("reassign_skipped", &mut config.reassign_skipped),
        ("skip_requires_reason", &mut config.skip_requires_reason),
    ] {
        truth(reader, &fields, field, flag);
    }
    if let Some((path, node)) = fields.get("people") {
        config.people = people(reader, &path, node, config.overlap);
    }
    if let Some((path, node)) = fields.get("skills") {
        config.skills = reader.names(&path, node).into_iter().collect();
        reader.limit(&path, "skills", config.skills.len(), MAX_SKILLS);
    }
    if let Some((path, node)) = fields.get("per_person") {
        config.per_person = per_person(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("priority")
        && let Some(priority) = reader.int(&path, node)
    {
        match i32::try_from(priority) {
            Ok(whole) if priority.abs() <= MAX_PRIORITY => config.priority = whole,
            Ok(_) | Err(_) => reader.problem(path, format!("must be from -{MAX_PRIORITY} to {MAX_PRIORITY}")),
        }
    }
    if let Some((path, node)) = fields.get("escalate") {
        config.escalate = escalate(reader, &path, node, &config.name);
    }
    if let Some((path, node)) = fields.get("schema") {
        config.schema = schema(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("rules") {
        config.rules = rules(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("agreement")
        && let Some(source) = reader.text(&path, node)
    {
        expression(reader, &path, source);
        config.agreement = source.to_owned();
    }
    config
}

fn number(
    reader: &mut Reader,
    fields: &Fields<'_>,
    field: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Option<u32> {
    let (path, node) = fields.get(field)?;
    let number = reader.int(&path, node)?;
    match u32::try_from(number) {
        Ok(whole) if range.contains(&number) => Some(whole),
        Ok(_) | Err(_) => {
            reader.problem(path, format!("must be from {} to {}", range.start(), range.end()));
            None
        }
    }
}

/// Whether `null` is permitted, meaning unlimited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nothing {
    Allowed,
    Refused,
}

/// Whole seconds, or a duration as written elsewhere. The outer `None`: the field is absent or invalid.
fn time(reader: &mut Reader, fields: &Fields<'_>, field: &str, nothing: Nothing) -> Option<Option<Duration>> {
    let (path, node) = fields.get(field)?;
    match node {
        Node::Null if nothing == Nothing::Allowed => Some(None),
        Node::Int(seconds) => match u64::try_from(*seconds).map(Duration::from_secs) {
            Ok(length) if !length.is_zero() && length <= duration::MAX => Some(Some(length)),
            Ok(_) | Err(_) => {
                reader.problem(path, "must be a number of seconds from 1 to a hundred years");
                None
            }
        },
        Node::Text(_) => reader.length(&path, node).map(Some),
        Node::Null | Node::Bool(_) | Node::Double(_) | Node::Huge(_) | Node::List(_) | Node::Map(_) => {
            let also = if nothing == Nothing::Allowed { ", or null for none" } else { "" };
            let found = node.kind();
            reader.problem(path, format!("must be whole seconds or a duration like 30m{also}, not {found}"));
            None
        }
    }
}

fn truth(reader: &mut Reader, fields: &Fields<'_>, field: &str, flag: &mut bool) {
    let Some((path, node)) = fields.get(field) else { return };
    match node {
        Node::Bool(truth) => *flag = *truth,
        Node::Null
        | Node::Int(_)
        | Node::Double(_)
        | Node::Huge(_)
        | Node::Text(_)
        | Node::List(_)
        | Node::Map(_) => reader.problem(path, format!("must be true or false, not {}", node.kind())),
    }
}

fn people(reader: &mut Reader, path: &str, node: &Node, overlap: u32) -> Eligible {
    if let Node::Text(word) = node {
        if word != "anyone" {
            reader.problem(path, format!("must be anyone or a list of people, not {word:?}"));
        }
        return Eligible::Anyone;
    }
    let items = reader.list(path, node);
    reader.limit(path, "people", items.len(), MAX_PEOPLE);
    let mut people = BTreeSet::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let Some(text) = reader.text(&path, item) else { continue };
        match PersonId::parse(text) {
            Ok(person) => {
                if !people.insert(person) {
                    reader.problem(path, format!("{text:?} is in the list twice"));
                }
            }
            Err(error) => reader.problem(path, format!("the name of a person {error}")),
        }
    }
    let enough = usize::try_from(overlap).unwrap_or(usize::MAX);
    if items.len() < enough {
        let message = format!("has {} people, the overlap needs {overlap} different ones", items.len());
        reader.problem(path, message);
    }
    Eligible::Listed(people)
}

fn per_person(reader: &mut Reader, path: &str, node: &Node) -> PerPerson {
    let mut limits = PerPerson { open: 1, total: None };
    let Some(fields) = reader.fields(path, node, &["open", "total"]) else { return limits };
    if let Some(open) = number(reader, &fields, "open", 1..=MAX_OPEN) {
        limits.open = open;
    }
    if !matches!(fields.get("total"), Some((_, Node::Null))) {
        limits.total = number(reader, &fields, "total", 1..=i64::from(u32::MAX));
    }
    limits
}

fn escalate(reader: &mut Reader, path: &str, node: &Node, own: &Name) -> Option<Escalate> {
    if matches!(node, Node::Null) {
        return None;
    }
    let fields = reader.fields(path, node, &["queue", "event"])?;
    match (fields.get("queue"), fields.get("event")) {
        (Some((path, node)), None) => {
            let queue = reader.name(&path, node)?;
            if queue == *own {
                reader.problem(path, "an item cannot be escalated to the queue that it is in");
            }
            Some(Escalate::Queue(queue))
        }
        (None, Some((path, node))) => reader.name(&path, node).map(Escalate::Event),
        (Some(_), Some(_)) | (None, None) => {
            reader.problem(path, "must name either a queue or an event");
            None
        }
    }
}

fn schema(reader: &mut Reader, path: &str, node: &Node) -> Option<RawJson> {
    match node {
        Node::Null => None,
        Node::Map(_) | Node::Bool(_) => {
            refuse_huge(reader, path, node);
            Some(RawJson::trusted(node.to_json()))
        }
        Node::Int(_) | Node::Double(_) | Node::Huge(_) | Node::Text(_) | Node::List(_) => {
            reader.problem(path, format!("must be a JSON Schema, which is a map, not {}", node.kind()));
            None
        }
    }
}

fn rules(reader: &mut Reader, path: &str, node: &Node) -> Vec<Rule> {
    let items = reader.list(path, node);
    reader.limit(path, "rules", items.len(), MAX_RULES);
    let mut rules = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let Some(fields) = reader.fields(&path, item, &["if", "message", "path"]) else { continue };
        let mut text = |field: &str| {
            let (path, node) = fields.get(field)?;
            Some((path.clone(), reader.text(&path, node)?.to_owned()))
        };
        let (condition, message, place) = (text("if"), text("message"), text("path"));
        for (field, there) in [("if", fields.get("if")), ("message", fields.get("message"))] {
            if there.is_none() {
                reader.problem(format!("{path}.{field}"), "is missing");
            }
        }
        if let (Some((path, condition)), Some((_, message))) = (condition, message) {
            expression(reader, &path, &condition);
            let path = place.map_or_else(String::new, |(_, place)| place);
            rules.push(Rule { condition, message, path });
        }
    }
    rules
}

fn expression(reader: &mut Reader, path: &str, source: &str) {
    if let Err(messages) = Program::compile(source, Vocabulary::Answer) {
        reader.problems.extend(messages.into_iter().map(|message| Problem::new(path, message)));
    }
}
