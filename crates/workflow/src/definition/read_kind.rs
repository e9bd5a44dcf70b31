//! Reads the kind of an action from the document tree.

use std::collections::{BTreeMap, BTreeSet};

use millstream_expr::{TextTemplate, TextTemplatePart, ValueTemplate};
use millstream_model::document::{DocumentFields, DocumentNode, DocumentReader, join_path};
use millstream_model::suggest::did_you_mean;

use super::actions::{
    ActionKind, EmitSpec, EmitTarget, HttpMethod, HttpSpec, ParentClose, StartSpec, StatusPattern, TaskSpec,
    WaitSpec, WebhookSpec,
};
use super::limits::{MAX_LABELS, MAX_RESPONSE_BYTES};
use super::read_device::read_device;
use super::read_state::read_template;
use super::read_task_for::read_task_for;

/// Fields that select the kind of an action, and `input`, which belongs to `call`.
pub(super) const FIELDS: &[&str] = &[
    "http", "log", "noop", "call", "input", "task", "device", "task_for", "emit", "start", "wait", "webhook",
];
const KINDS: &[&str] =
    &["http", "log", "noop", "call", "task", "device", "task_for", "emit", "start", "wait", "webhook"];

/// Reserved headers, which the engine or the HTTP connection sets.
const OWN_HEADERS: &[&str] = &[
    "idempotency-key",
    "millstream-fencing-token",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
];

pub(super) fn read_kind(reader: &mut DocumentReader, path: &str, fields: &DocumentFields<'_>) -> ActionKind {
    let nothing = ActionKind::Noop { value: ValueTemplate::Null };
    let given: Vec<_> =
        KINDS.iter().filter_map(|kind| fields.get(kind).map(|found| (*kind, found))).collect();
    if let (Some((path, _)), None) = (fields.get("input"), fields.get("call")) {
        reader.add_problem(path, "is allowed with call only; other kinds contain their own input field");
    }
    match &given[..] {
        [] => {
            reader.add_problem(path, format!("has no action kind: one of {} is required", KINDS.join(", ")));
            nothing
        }
        [(kind, (path, node))] => match *kind {
            "http" => read_http(reader, path, node).map(ActionKind::Http),
            "log" => reader
                .read_text(path, node)
                .map(|text| ActionKind::Log { text: TextTemplate(text.to_owned()) }),
            "call" => read_call(reader, path, node, fields),
            "task" => read_task(reader, path, node).map(ActionKind::Task),
            "device" => read_device(reader, path, node).map(ActionKind::Device),
            "task_for" => read_task_for(reader, path, node).map(ActionKind::TaskFor),
            "emit" => read_emit(reader, path, node).map(ActionKind::Emit),
            "start" => read_start(reader, path, node).map(ActionKind::Start),
            "wait" => read_wait(reader, path, node).map(ActionKind::Wait),
            "webhook" => read_webhook(reader, path, node).map(ActionKind::Webhook),
            _ => Some(ActionKind::Noop { value: read_template(reader, path, node) }),
        }
        .unwrap_or(nothing),
        [(first, _), (second, _), ..] => {
            reader.add_problem(path, format!("has both {first} and {second}: an action does one thing"));
            nothing
        }
    }
}

pub(super) fn required_field<'n>(
    reader: &mut DocumentReader,
    path: &str,
    fields: &DocumentFields<'n>,
    field: &str,
) -> Option<(String, &'n DocumentNode)> {
    let found = fields.get(field);
    if found.is_none() {
        reader.add_problem(join_path(path, field), "is missing");
    }
    found
}

fn read_text_field(
    reader: &mut DocumentReader,
    path: &str,
    fields: &DocumentFields<'_>,
    field: &str,
) -> Option<TextTemplate> {
    let (path, node) = required_field(reader, path, fields, field)?;
    reader.read_text(&path, node).map(|text| TextTemplate(text.to_owned()))
}

pub(super) fn read_template_field(
    reader: &mut DocumentReader,
    fields: &DocumentFields<'_>,
    field: &str,
) -> ValueTemplate {
    fields.get(field).map_or(ValueTemplate::Null, |(path, node)| read_template(reader, &path, node))
}

fn read_call(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
    fields: &DocumentFields<'_>,
) -> Option<ActionKind> {
    let input = read_template_field(reader, fields, "input");
    let function = reader.read_name(path, node)?;
    Some(ActionKind::Call { function, input })
}

fn read_task(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<TaskSpec> {
    let fields = reader.read_fields(path, node, &["type", "labels", "input"])?;
    let mut labels = BTreeSet::new();
    if let Some((path, node)) = fields.get("labels") {
        for (n, label) in reader.read_names(&path, node).into_iter().enumerate() {
            if !labels.insert(label) {
                reader.add_problem(format!("{path}[{n}]"), "appears twice");
            }
        }
        reader.check_limit(&path, "labels", labels.len(), MAX_LABELS);
    }
    let input = read_template_field(reader, &fields, "input");
    let (path, node) = required_field(reader, path, &fields, "type")?;
    Some(TaskSpec { kind: reader.read_name(&path, node)?, labels, input })
}

fn read_emit(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<EmitSpec> {
    let fields = reader.read_fields(path, node, &["to", "correlation", "event", "payload"])?;
    let payload = read_template_field(reader, &fields, "payload");
    let to = match (fields.get("to"), fields.get("correlation")) {
        (Some((path, node)), None) => {
            reader.read_text(&path, node).map(|text| EmitTarget::Execution(TextTemplate(text.to_owned())))
        }
        (None, Some((path, node))) => {
            reader.read_text(&path, node).map(|text| EmitTarget::Correlation(TextTemplate(text.to_owned())))
        }
        (Some(_), Some(_)) => {
            reader.add_problem(path, "has both to and correlation: exactly one target is allowed");
            None
        }
        (None, None) => {
            reader.add_problem(path, "has no target: to (an execution id) or correlation is required");
            None
        }
    };
    let event = required_field(reader, path, &fields, "event");
    let event = event.and_then(|(path, node)| reader.read_name(&path, node));
    Some(EmitSpec { to: to?, event: event?, payload })
}

fn read_start(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<StartSpec> {
    let known = &["definition", "version", "execution_id", "input", "parent_close"];
    let fields = reader.read_fields(path, node, known)?;
    let version = fields.get("version").and_then(|(path, node)| {
        let version = reader.read_integer(&path, node)?;
        let version = i32::try_from(version).ok().filter(|version| *version > 0);
        if version.is_none() {
            reader.add_problem(path, "must be a version number, 1 or greater");
        }
        version
    });
    let execution_id = fields
        .get("execution_id")
        .and_then(|(path, node)| reader.read_text(&path, node).map(|text| TextTemplate(text.to_owned())));
    let input = read_template_field(reader, &fields, "input");
    let parent_close = match fields.get("parent_close") {
        None => ParentClose::Cancel,
        Some((path, node)) => {
            let word = reader.read_text(&path, node).unwrap_or("cancel");
            ParentClose::parse(word).unwrap_or_else(|| {
                let hint = did_you_mean(word, ["cancel", "abandon"].into_iter());
                reader.add_problem(path, format!("must be cancel or abandon, not {word:?}{hint}"));
                ParentClose::Cancel
            })
        }
    };
    let (path, node) = required_field(reader, path, &fields, "definition")?;
    Some(StartSpec { definition: reader.read_name(&path, node)?, version, execution_id, input, parent_close })
}

fn read_wait(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<WaitSpec> {
    let fields = reader.read_fields(path, node, &["until", "for"])?;
    match (fields.get("until"), fields.get("for")) {
        (Some((path, node)), None) => {
            reader.read_text(&path, node).map(|text| WaitSpec::Until(text.to_owned()))
        }
        (None, Some((path, node))) => reader.read_duration(&path, node).map(WaitSpec::For),
        (Some(_), Some(_)) | (None, None) => {
            reader.add_problem(path, "requires either until (an expression for a time) or for (a duration)");
            None
        }
    }
}

fn read_webhook(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<WebhookSpec> {
    let fields = reader.read_fields(path, node, &["url", "type", "data", "secret"])?;
    let target =
        required_field(reader, path, &fields, "url").and_then(|(path, node)| read_url(reader, &path, node));
    let event_type = read_text_field(reader, path, &fields, "type");
    let data = read_template_field(reader, &fields, "data");
    let (path, node) = required_field(reader, path, &fields, "secret")?;
    let secret = reader.read_name(&path, node)?;
    Some(WebhookSpec { url: target?, event_type: event_type?, data, secret })
}

fn read_http(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<HttpSpec> {
    let known = &["method", "url", "headers", "body", "expect", "result", "max_response"];
    let fields = reader.read_fields(path, node, known)?;
    let method = match fields.get("method") {
        Some((path, node)) => read_method(reader, &path, node),
        None => HttpMethod::Post,
    };
    let target =
        required_field(reader, path, &fields, "url").and_then(|(path, node)| read_url(reader, &path, node));
    let mut headers = BTreeMap::new();
    if let Some((path, node)) = fields.get("headers") {
        for (key, node) in reader.read_map(&path, node).unwrap_or_default() {
            read_header(reader, &join_path(&path, key), key, node, &mut headers);
        }
    }
    let body = fields.get("body").map(|(path, node)| read_template(reader, &path, node));
    let mut expect = Vec::new();
    if let Some((path, node)) = fields.get("expect") {
        for (n, item) in reader.read_list(&path, node).iter().enumerate() {
            expect.extend(read_status_pattern(reader, &format!("{path}[{n}]"), item));
        }
    }
    let result = fields.get("result").map(|(path, node)| read_template(reader, &path, node));
    let max_response = fields.get("max_response").and_then(|(path, node)| {
        let bytes = reader.read_integer(&path, node)?;
        let bytes = usize::try_from(bytes).ok().filter(|bytes| (1..=MAX_RESPONSE_BYTES).contains(bytes));
        if bytes.is_none() {
            reader.add_problem(path, format!("must be a number of bytes from 1 to {MAX_RESPONSE_BYTES}"));
        }
        bytes
    });
    Some(HttpSpec { method, url: target?, headers, body, expect, result, max_response })
}

fn read_status_pattern(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
) -> Option<StatusPattern> {
    let pattern = match node {
        DocumentNode::Int(int) => StatusPattern::parse(&int.to_string()),
        DocumentNode::Text(text) => StatusPattern::parse(text),
        DocumentNode::Null
        | DocumentNode::Bool(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::List(_)
        | DocumentNode::Map(_) => None,
    };
    if pattern.is_none() {
        reader.add_problem(path, "must be a status such as 404, or a class such as 2xx");
    }
    pattern
}

fn read_method(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> HttpMethod {
    let Some(text) = reader.read_text(path, node) else { return HttpMethod::Post };
    HttpMethod::parse(text).unwrap_or_else(|| {
        let known: Vec<_> = HttpMethod::ALL.iter().map(|method| method.as_str()).collect();
        let upper = text.to_ascii_uppercase();
        let hint = if known.contains(&upper.as_str()) {
            format!(" (did you mean {upper:?}?)")
        } else {
            did_you_mean(text, known.iter().copied())
        };
        reader.add_problem(path, format!("no method {text:?}{hint}: known methods are {}", known.join(", ")));
        HttpMethod::Post
    })
}

/// The scheme must be literal: the value of an expression is percent-encoded and cannot contain one.
fn read_url(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Option<TextTemplate> {
    let text = TextTemplate(reader.read_text(path, node)?.to_owned());
    if let Ok(parts) = text.split_parts() {
        let plain = match parts.first() {
            Some(TextTemplatePart::Plain(plain)) => plain.as_str(),
            Some(TextTemplatePart::Cel(_)) | None => "",
        };
        let rest = plain.strip_prefix("http://").or_else(|| plain.strip_prefix("https://"));
        match rest {
            None => reader.add_problem(path, "must begin with http:// or https://"),
            Some("") if parts.len() == 1 => reader.add_problem(path, "has no host"),
            Some(rest) if rest.starts_with('/') => reader.add_problem(path, "has no host"),
            Some(_) => {}
        }
        if plain.chars().any(|c| c.is_whitespace() || c.is_control()) {
            reader.add_problem(path, "may not contain spaces");
        }
    }
    Some(text)
}

fn read_header(
    reader: &mut DocumentReader,
    path: &str,
    key: &str,
    node: &DocumentNode,
    headers: &mut BTreeMap<String, TextTemplate>,
) {
    let name = key.to_ascii_lowercase();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        reader.add_problem(path, "is not a header name");
    }
    if OWN_HEADERS.contains(&name.as_str()) {
        reader.add_problem(path, "is set by the engine");
    }
    let text = match node {
        DocumentNode::Text(text) => text.clone(),
        DocumentNode::Int(int) => int.to_string(),
        DocumentNode::Null
        | DocumentNode::Bool(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::List(_)
        | DocumentNode::Map(_) => {
            reader.add_problem(path, format!("must be a string, not {}", node.kind()));
            return;
        }
    };
    if text.chars().any(char::is_control) {
        reader.add_problem(path, "may not contain control characters");
    }
    if headers.insert(name, TextTemplate(text)).is_some() {
        reader.add_problem(path, "appears twice");
    }
}
