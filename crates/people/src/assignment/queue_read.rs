//! Reads the configuration of a queue; reports every problem at once.
//!
//! A client's configuration compiles every expression, which may take long: the caller runs it off the runtime. A stored
//! one was compiled when it was accepted, so that reading it back costs no more than its JSON.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_expr::{CelProgram, ExprVocabulary};
use millstream_model::document::{
    DocumentFields, DocumentNode, DocumentReader, SourceFormat, check_integers, parse_document,
};
use millstream_model::duration;
use millstream_model::id::{Name, PersonId};
use millstream_model::problem::{ValidationProblem, ValidationProblems};
use millstream_model::raw::RawJson;

use super::limits::{MAX_ATTEMPTS, MAX_OPEN, MAX_OVERLAP, MAX_PEOPLE, MAX_PRIORITY, MAX_RULES, MAX_SKILLS};
use super::queue::{AnswerRule, EligiblePersons, EscalationTarget, PersonLimits, QueueConfig};
use super::queue_write::{ATTEMPTS_ALIAS, ATTEMPTS_FIELD};

const FIELDS: &[&str] = &[
    "format",
    "name",
    "timeout_seconds",
    "pre_assignment_timeout",
    ATTEMPTS_FIELD,
    ATTEMPTS_ALIAS,
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

/// Whether expressions are compiled to find their problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpressionCheck {
    Compile,
    /// They were compiled when the configuration was stored.
    Skip,
}

/// `name` is the name known from the request, so that the document may omit it.
pub(super) fn parse_queue(
    source: &str,
    format: SourceFormat,
    name: Option<&Name>,
) -> Result<QueueConfig, ValidationProblems> {
    let document = parse_document(source, format)?;
    let mut reader = DocumentReader::default();
    let config = read_queue(&mut reader, &document, name, ExpressionCheck::Compile);
    if reader.problems.is_empty() { Ok(config) } else { Err(ValidationProblems(reader.problems)) }
}

pub(super) fn parse_stored_queue(source: &str) -> Result<QueueConfig, ValidationProblems> {
    let document = parse_document(source, SourceFormat::Json)?;
    let mut reader = DocumentReader::default();
    let config = read_queue(&mut reader, &document, None, ExpressionCheck::Skip);
    if reader.problems.is_empty() { Ok(config) } else { Err(ValidationProblems(reader.problems)) }
}

fn read_queue(
    reader: &mut DocumentReader,
    document: &DocumentNode,
    given: Option<&Name>,
    check: ExpressionCheck,
) -> QueueConfig {
    let unnamed = || Name::reserved_name("millstream.queue");
    let mut config = QueueConfig::with_defaults(given.cloned().unwrap_or_else(unnamed));
    let Some(fields) = reader.read_fields("", document, FIELDS) else { return config };
    if let Some(format) = read_number(reader, &fields, "format", 1..=i64::from(u8::MAX))
        && format != u32::from(QueueConfig::FORMAT)
    {
        reader.add_problem("format", format!("this version reads format {} only", QueueConfig::FORMAT));
    }
    match fields.get("name") {
        Some((path, node)) => {
            let said = reader.read_name(&path, node);
            if let (Some(given), Some(said)) = (given, &said)
                && given != said
            {
                reader.add_problem(
                    path,
                    format!("is {:?}, this is the queue {:?}", said.as_str(), given.as_str()),
                );
            }
            config.name = said.unwrap_or(config.name);
        }
        None if given.is_some() => {}
        None => reader.add_problem("name", "is missing"),
    }
    if let Some(Some(timeout)) = read_time(reader, &fields, "timeout_seconds", NullPolicy::Refused) {
        config.timeout = timeout;
    }
    if let Some(timeout) = read_time(reader, &fields, "pre_assignment_timeout", NullPolicy::Allowed) {
        config.pre_assignment_timeout = timeout;
    }
    if let Some(due) = read_time(reader, &fields, "due", NullPolicy::Allowed) {
        config.due = due;
    }
    if let Some(attempts) = read_attempts_per_person(reader, &fields) {
        config.max_attempts_per_person = attempts;
    }
    if let Some(overlap) = read_number(reader, &fields, "overlap", 1..=MAX_OVERLAP) {
        config.overlap = overlap;
        config.max_attempts_total = QueueConfig::ATTEMPTS_TOTAL * overlap;
    }
    if let Some(attempts) = read_number(reader, &fields, "max_attempts_total", 1..=MAX_ATTEMPTS) {
        config.max_attempts_total = attempts;
        if attempts < config.overlap {
            let message = format!("is less than the overlap of {} people", config.overlap);
            reader.add_problem("max_attempts_total", message);
        }
    }
    for (field, flag) in [
        ("reassign_expired", &mut config.reassign_expired),
        ("reassign_skipped", &mut config.reassign_skipped),
        ("skip_requires_reason", &mut config.skip_requires_reason),
    ] {
        read_flag(reader, &fields, field, flag);
    }
    if let Some((path, node)) = fields.get("people") {
        config.people = read_people(reader, &path, node, config.overlap);
    }
    if let Some((path, node)) = fields.get("skills") {
        config.skills = reader.read_names(&path, node).into_iter().collect();
        reader.check_limit(&path, "skills", config.skills.len(), MAX_SKILLS);
    }
    if let Some((path, node)) = fields.get("per_person") {
        config.per_person = read_person_limits(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("priority")
        && let Some(priority) = reader.read_integer(&path, node)
    {
        match i32::try_from(priority) {
            Ok(whole) if priority.abs() <= MAX_PRIORITY => config.priority = whole,
            Ok(_) | Err(_) => {
                reader.add_problem(path, format!("must be from -{MAX_PRIORITY} to {MAX_PRIORITY}"))
            }
        }
    }
    if let Some((path, node)) = fields.get("escalate") {
        config.escalate = read_escalation(reader, &path, node, &config.name);
    }
    if let Some((path, node)) = fields.get("schema") {
        config.schema = read_schema(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("rules") {
        config.rules = read_rules(reader, &path, node, check);
    }
    if let Some((path, node)) = fields.get("agreement")
        && let Some(source) = reader.read_text(&path, node)
    {
        check_expression(reader, &path, source, check);
        config.agreement = source.to_owned();
    }
    config
}

fn read_attempts_per_person(reader: &mut DocumentReader, fields: &DocumentFields<'_>) -> Option<u32> {
    let field = match (fields.get(ATTEMPTS_FIELD), fields.get(ATTEMPTS_ALIAS)) {
        (Some(_), Some((alias, _))) => {
            reader.add_problem(alias, format!("is an alias of {ATTEMPTS_FIELD}; give only one of the two"));
            ATTEMPTS_FIELD
        }
        (None, Some(_)) => ATTEMPTS_ALIAS,
        (Some(_) | None, None) => ATTEMPTS_FIELD,
    };
    read_number(reader, fields, field, 1..=MAX_ATTEMPTS)
}

fn read_number(
    reader: &mut DocumentReader,
    fields: &DocumentFields<'_>,
    field: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Option<u32> {
    let (path, node) = fields.get(field)?;
    let number = reader.read_integer(&path, node)?;
    match u32::try_from(number) {
        Ok(whole) if range.contains(&number) => Some(whole),
        Ok(_) | Err(_) => {
            reader.add_problem(path, format!("must be from {} to {}", range.start(), range.end()));
            None
        }
    }
}

/// Whether `null` is permitted, meaning unlimited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NullPolicy {
    Allowed,
    Refused,
}

/// Whole seconds, or a duration as written elsewhere. The outer `None`: the field is absent or invalid.
fn read_time(
    reader: &mut DocumentReader,
    fields: &DocumentFields<'_>,
    field: &str,
    nothing: NullPolicy,
) -> Option<Option<Duration>> {
    let (path, node) = fields.get(field)?;
    match node {
        DocumentNode::Null if nothing == NullPolicy::Allowed => Some(None),
        DocumentNode::Int(seconds) => match u64::try_from(*seconds).map(Duration::from_secs) {
            Ok(length) if !length.is_zero() && length <= duration::MAX => Some(Some(length)),
            Ok(_) | Err(_) => {
                reader.add_problem(path, "must be a number of seconds from 1 to a hundred years");
                None
            }
        },
        DocumentNode::Text(_) => reader.read_duration(&path, node).map(Some),
        DocumentNode::Null
        | DocumentNode::Bool(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::List(_)
        | DocumentNode::Map(_) => {
            let also = if nothing == NullPolicy::Allowed { ", or null for none" } else { "" };
            let found = node.kind();
            reader.add_problem(
                path,
                format!("must be whole seconds or a duration like 30m{also}, not {found}"),
            );
            None
        }
    }
}

fn read_flag(reader: &mut DocumentReader, fields: &DocumentFields<'_>, field: &str, flag: &mut bool) {
    let Some((path, node)) = fields.get(field) else { return };
    match node {
        DocumentNode::Bool(truth) => *flag = *truth,
        DocumentNode::Null
        | DocumentNode::Int(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::Text(_)
        | DocumentNode::List(_)
        | DocumentNode::Map(_) => {
            reader.add_problem(path, format!("must be true or false, not {}", node.kind()))
        }
    }
}

fn read_people(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
    overlap: u32,
) -> EligiblePersons {
    if let DocumentNode::Text(word) = node {
        if word != "anyone" {
            reader.add_problem(path, format!("must be anyone or a list of people, not {word:?}"));
        }
        return EligiblePersons::Anyone;
    }
    let items = reader.read_list(path, node);
    reader.check_limit(path, "people", items.len(), MAX_PEOPLE);
    let mut people = BTreeSet::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let Some(text) = reader.read_text(&path, item) else { continue };
        match PersonId::parse(text) {
            Ok(person) => {
                if !people.insert(person) {
                    reader.add_problem(path, format!("{text:?} is in the list twice"));
                }
            }
            Err(error) => reader.add_problem(path, format!("the name of a person {error}")),
        }
    }
    let enough = usize::try_from(overlap).unwrap_or(usize::MAX);
    if items.len() < enough {
        let message = format!("has {} people, the overlap needs {overlap} different ones", items.len());
        reader.add_problem(path, message);
    }
    EligiblePersons::Listed(people)
}

fn read_person_limits(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> PersonLimits {
    let mut limits = PersonLimits { open: 1, total: None };
    let Some(fields) = reader.read_fields(path, node, &["open", "total"]) else { return limits };
    if let Some(open) = read_number(reader, &fields, "open", 1..=MAX_OPEN) {
        limits.open = open;
    }
    if !matches!(fields.get("total"), Some((_, DocumentNode::Null))) {
        limits.total = read_number(reader, &fields, "total", 1..=i64::from(u32::MAX));
    }
    limits
}

fn read_escalation(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
    own: &Name,
) -> Option<EscalationTarget> {
    if matches!(node, DocumentNode::Null) {
        return None;
    }
    let fields = reader.read_fields(path, node, &["queue", "event"])?;
    match (fields.get("queue"), fields.get("event")) {
        (Some((path, node)), None) => {
            let queue = reader.read_name(&path, node)?;
            if queue == *own {
                reader.add_problem(path, "an item cannot be escalated to the queue that it is in");
            }
            Some(EscalationTarget::Queue(queue))
        }
        (None, Some((path, node))) => reader.read_name(&path, node).map(EscalationTarget::Event),
        (Some(_), Some(_)) | (None, None) => {
            reader.add_problem(path, "must name either a queue or an event");
            None
        }
    }
}

fn read_schema(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<RawJson> {
    match node {
        DocumentNode::Null => None,
        DocumentNode::Map(_) | DocumentNode::Bool(_) => {
            check_integers(reader, path, node);
            Some(RawJson::from_trusted_text(node.to_json()))
        }
        DocumentNode::Int(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::Text(_)
        | DocumentNode::List(_) => {
            reader.add_problem(path, format!("must be a JSON Schema, which is a map, not {}", node.kind()));
            None
        }
    }
}

fn read_rules(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
    check: ExpressionCheck,
) -> Vec<AnswerRule> {
    let items = reader.read_list(path, node);
    reader.check_limit(path, "rules", items.len(), MAX_RULES);
    let mut rules = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let Some(fields) = reader.read_fields(&path, item, &["if", "message", "path"]) else { continue };
        let mut text = |field: &str| {
            let (path, node) = fields.get(field)?;
            Some((path.clone(), reader.read_text(&path, node)?.to_owned()))
        };
        let (condition, message, place) = (text("if"), text("message"), text("path"));
        for (field, there) in [("if", fields.get("if")), ("message", fields.get("message"))] {
            if there.is_none() {
                reader.add_problem(format!("{path}.{field}"), "is missing");
            }
        }
        if let (Some((path, condition)), Some((_, message))) = (condition, message) {
            check_expression(reader, &path, &condition, check);
            let path = place.map_or_else(String::new, |(_, place)| place);
            rules.push(AnswerRule { condition, message, path });
        }
    }
    rules
}

fn check_expression(reader: &mut DocumentReader, path: &str, source: &str, check: ExpressionCheck) {
    if check == ExpressionCheck::Compile
        && let Err(messages) = CelProgram::compile(source, ExprVocabulary::Answer)
    {
        reader.problems.extend(messages.into_iter().map(|message| ValidationProblem::new(path, message)));
    }
}
