//! Reads the kind of an action from the document tree.

use std::collections::{BTreeMap, BTreeSet};

use super::actions::{
    ActionKind, EmitSpec, EmitTarget, HttpSpec, Method, ParentClose, StartSpec, StatusPattern, TaskSpec,
    WaitSpec, WebhookSpec,
};
use super::document::Node;
use super::limits::{MAX_LABELS, MAX_RESPONSE_BYTES};
use super::read_device::device;
use super::read_state::template;
use super::read_task_for::task_for;
use super::reader::{Fields, Reader, join};
use super::suggest::did_you_mean;
use super::template::{Part, Template, Text};

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

pub(super) fn kind(reader: &mut Reader, path: &str, fields: &Fields<'_>) -> ActionKind {
    let nothing = ActionKind::Noop { value: Template::Null };
    let given: Vec<_> =
        KINDS.iter().filter_map(|kind| fields.get(kind).map(|found| (*kind, found))).collect();
    if let (Some((path, _)), None) = (fields.get("input"), fields.get("call")) {
        reader.problem(path, "is allowed with call only; other kinds contain their own input field");
    }
    match &given[..] {
        [] => {
            reader.problem(path, format!("has no action kind: one of {} is required", KINDS.join(", ")));
            nothing
        }
        [(kind, (path, node))] => match *kind {
            "http" => http(reader, path, node).map(ActionKind::Http),
            "log" => reader.text(path, node).map(|text| ActionKind::Log { text: Text(text.to_owned()) }),
            "call" => call(reader, path, node, fields),
            "task" => task(reader, path, node).map(ActionKind::Task),
            "device" => device(reader, path, node).map(ActionKind::Device),
            "task_for" => task_for(reader, path, node).map(ActionKind::TaskFor),
            "emit" => emit(reader, path, node).map(ActionKind::Emit),
            "start" => start(reader, path, node).map(ActionKind::Start),
            "wait" => wait(reader, path, node).map(ActionKind::Wait),
            "webhook" => webhook(reader, path, node).map(ActionKind::Webhook),
            _ => Some(ActionKind::Noop { value: template(reader, path, node) }),
        }
        .unwrap_or(nothing),
        [(first, _), (second, _), ..] => {
            reader.problem(path, format!("has both {first} and {second}: an action does one thing"));
            nothing
        }
    }
}

pub(super) fn required<'n>(
    reader: &mut Reader,
    path: &str,
    fields: &Fields<'n>,
    field: &str,
) -> Option<(String, &'n Node)> {
    let found = fields.get(field);
    if found.is_none() {
        reader.problem(join(path, field), "is missing");
    }
    found
}

fn text_field(reader: &mut Reader, path: &str, fields: &Fields<'_>, field: &str) -> Option<Text> {
    let (path, node) = required(reader, path, fields, field)?;
    reader.text(&path, node).map(|text| Text(text.to_owned()))
}

pub(super) fn tree_field(reader: &mut Reader, fields: &Fields<'_>, field: &str) -> Template {
    fields.get(field).map_or(Template::Null, |(path, node)| template(reader, &path, node))
}

fn call(reader: &mut Reader, path: &str, node: &Node, fields: &Fields<'_>) -> Option<ActionKind> {
    let input = tree_field(reader, fields, "input");
    let function = reader.name(path, node)?;
    Some(ActionKind::Call { function, input })
}

fn task(reader: &mut Reader, path: &str, node: &Node) -> Option<TaskSpec> {
    let fields = reader.fields(path, node, &["type", "labels", "input"])?;
    let mut labels = BTreeSet::new();
    if let Some((path, node)) = fields.get("labels") {
        for (n, label) in reader.names(&path, node).into_iter().enumerate() {
            if !labels.insert(label) {
                reader.problem(format!("{path}[{n}]"), "appears twice");
            }
        }
        reader.limit(&path, "labels", labels.len(), MAX_LABELS);
    }
    let input = tree_field(reader, &fields, "input");
    let (path, node) = required(reader, path, &fields, "type")?;
    Some(TaskSpec { kind: reader.name(&path, node)?, labels, input })
}

fn emit(reader: &mut Reader, path: &str, node: &Node) -> Option<EmitSpec> {
    let fields = reader.fields(path, node, &["to", "correlation", "event", "payload"])?;
    let payload = tree_field(reader, &fields, "payload");
    let to = match (fields.get("to"), fields.get("correlation")) {
        (Some((path, node)), None) => {
            reader.text(&path, node).map(|text| EmitTarget::Execution(Text(text.to_owned())))
        }
        (None, Some((path, node))) => {
            reader.text(&path, node).map(|text| EmitTarget::Correlation(Text(text.to_owned())))
        }
        (Some(_), Some(_)) => {
            reader.problem(path, "has both to and correlation: exactly one target is allowed");
            None
        }
        (None, None) => {
            reader.problem(path, "has no target: to (an execution id) or correlation is required");
            None
        }
    };
    let event = required(reader, path, &fields, "event");
    let event = event.and_then(|(path, node)| reader.name(&path, node));
    Some(EmitSpec { to: to?, event: event?, payload })
}

fn start(reader: &mut Reader, path: &str, node: &Node) -> Option<StartSpec> {
    let known = &["definition", "version", "execution_id", "input", "parent_close"];
    let fields = reader.fields(path, node, known)?;
    let version = fields.get("version").and_then(|(path, node)| {
        let version = reader.int(&path, node)?;
        let version = i32::try_from(version).ok().filter(|version| *version > 0);
        if version.is_none() {
            reader.problem(path, "must be a version number, 1 or greater");
        }
        version
    });
    let execution_id = fields
        .get("execution_id")
        .and_then(|(path, node)| reader.text(&path, node).map(|text| Text(text.to_owned())));
    let input = tree_field(reader, &fields, "input");
    let parent_close = match fields.get("parent_close") {
        None => ParentClose::Cancel,
        Some((path, node)) => {
            let word = reader.text(&path, node).unwrap_or("cancel");
            ParentClose::parse(word).unwrap_or_else(|| {
                let hint = did_you_mean(word, ["cancel", "abandon"].into_iter());
                reader.problem(path, format!("must be cancel or abandon, not {word:?}{hint}"));
                ParentClose::Cancel
            })
        }
    };
    let (path, node) = required(reader, path, &fields, "definition")?;
    Some(StartSpec { definition: reader.name(&path, node)?, version, execution_id, input, parent_close })
}

fn wait(reader: &mut Reader, path: &str, node: &Node) -> Option<WaitSpec> {
    let fields = reader.fields(path, node, &["until", "for"])?;
    match (fields.get("until"), fields.get("for")) {
        (Some((path, node)), None) => reader.text(&path, node).map(|text| WaitSpec::Until(text.to_owned())),
        (None, Some((path, node))) => reader.length(&path, node).map(WaitSpec::For),
        (Some(_), Some(_)) | (None, None) => {
            reader.problem(path, "requires either until (an expression for a time) or for (a duration)");
            None
        }
    }
}

fn webhook(reader: &mut Reader, path: &str, node: &Node) -> Option<WebhookSpec> {
    let fields = reader.fields(path, node, &["url", "type", "data", "secret"])?;
    let target = required(reader, path, &fields, "url").and_then(|(path, node)| url(reader, &path, node));
    let event_type = text_field(reader, path, &fields, "type");
    let data = tree_field(reader, &fields, "data");
    let (path, node) = required(reader, path, &fields, "secret")?;
    let secret = reader.name(&path, node)?;
    Some(WebhookSpec { url: target?, event_type: event_type?, data, secret })
}

fn http(reader: &mut Reader, path: &str, node: &Node) -> Option<HttpSpec> {
    let known = &["method", "url", "headers", "body", "expect", "result", "max_response"];
    let fields = reader.fields(path, node, known)?;
    let method = match fields.get("method") {
        Some((path, node)) => method(reader, &path, node),
        None => Method::Post,
    };
    let target = required(reader, path, &fields, "url").and_then(|(path, node)| url(reader, &path, node));
    let mut headers = BTreeMap::new();
    if let Some((path, node)) = fields.get("headers") {
        for (key, node) in reader.map(&path, node).unwrap_or_default() {
            header(reader, &join(&path, key), key, node, &mut headers);
        }
    }
    let body = fields.get("body").map(|(path, node)| template(reader, &path, node));
    let mut expect = Vec::new();
    if let Some((path, node)) = fields.get("expect") {
        for (n, item) in reader.list(&path, node).iter().enumerate() {
            expect.extend(status(reader, &format!("{path}[{n}]"), item));
        }
    }
    let result = fields.get("result").map(|(path, node)| template(reader, &path, node));
    let max_response = fields.get("max_response").and_then(|(path, node)| {
        let bytes = reader.int(&path, node)?;
        let bytes = usize::try_from(bytes).ok().filter(|bytes| (1..=MAX_RESPONSE_BYTES).contains(bytes));
        if bytes.is_none() {
            reader.problem(path, format!("must be a number of bytes from 1 to {MAX_RESPONSE_BYTES}"));
        }
        bytes
    });
    Some(HttpSpec { method, url: target?, headers, body, expect, result, max_response })
}

fn status(reader: &mut Reader, path: &str, node: &Node) -> Option<StatusPattern> {
    let pattern = match node {
        Node::Int(int) => StatusPattern::parse(&int.to_string()),
        Node::Text(text) => StatusPattern::parse(text),
        Node::Null | Node::Bool(_) | Node::Double(_) | Node::Huge(_) | Node::List(_) | Node::Map(_) => None,
    };
    if pattern.is_none() {
        reader.problem(path, "must be a status such as 404, or a class such as 2xx");
    }
    pattern
}

fn method(reader: &mut Reader, path: &str, node: &Node) -> Method {
    let Some(text) = reader.text(path, node) else { return Method::Post };
    Method::parse(text).unwrap_or_else(|| {
        let known: Vec<_> = Method::ALL.iter().map(|method| method.as_str()).collect();
        let upper = text.to_ascii_uppercase();
        let hint = if known.contains(&upper.as_str()) {
            format!(" (did you mean {upper:?}?)")
        } else {
            did_you_mean(text, known.iter().copied())
        };
        reader.problem(path, format!("no method {text:?}{hint}: known methods are {}", known.join(", ")));
        Method::Post
    })
}

/// The scheme must be literal: the value of an expression is percent-encoded and cannot contain one.
fn url(reader: &mut Reader, path: &str, node: &Node) -> Option<Text> {
    let text = Text(reader.text(path, node)?.to_owned());
    if let Ok(parts) = text.parts() {
        let plain = match parts.first() {
            Some(Part::Plain(plain)) => plain.as_str(),
            Some(Part::Cel(_)) | None => "",
        };
        let rest = plain.strip_prefix("http://").or_else(|| plain.strip_prefix("https://"));
        match rest {
            None => reader.problem(path, "must begin with http:// or https://"),
            Some("") if parts.len() == 1 => reader.problem(path, "has no host"),
            Some(rest) if rest.starts_with('/') => reader.problem(path, "has no host"),
            Some(_) => {}
        }
        if plain.chars().any(|c| c.is_whitespace() || c.is_control()) {
            reader.problem(path, "may not contain spaces");
        }
    }
    Some(text)
}

fn header(reader: &mut Reader, path: &str, key: &str, node: &Node, headers: &mut BTreeMap<String, Text>) {
    let name = key.to_ascii_lowercase();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        reader.problem(path, "is not a header name");
    }
    if OWN_HEADERS.contains(&name.as_str()) {
        reader.problem(path, "is set by the engine");
    }
    let text = match node {
        Node::Text(text) => text.clone(),
        Node::Int(int) => int.to_string(),
        Node::Null | Node::Bool(_) | Node::Double(_) | Node::Huge(_) | Node::List(_) | Node::Map(_) => {
            reader.problem(path, format!("must be a string, not {}", node.kind()));
            return;
        }
    };
    if text.chars().any(char::is_control) {
        reader.problem(path, "may not contain control characters");
    }
    if headers.insert(name, Text(text)).is_some() {
        reader.problem(path, "appears twice");
    }
}
