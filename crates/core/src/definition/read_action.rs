//! From the tree to a definition: actions.

use std::collections::BTreeMap;

use super::document::Node;
use super::limits::MAX_ATTEMPTS;
use super::model::{ActionKind, ActionSpec, HttpSpec, Method};
use super::read_state::template;
use super::reader::{Fields, Reader, join};
use super::suggest::did_you_mean;
use super::template::{Part, Template, Text};
use crate::id::Name;
use crate::retry::RetryPolicy;

const FIELDS: &[&str] = &["http", "log", "noop", "needs", "retry", "timeout", "on_success", "on_failure"];
const KINDS: &[&str] = &["http", "log", "noop"];

/// Headers that belong to the engine or to the connection.
const OWN_HEADERS: &[&str] = &[
    "idempotency-key",
    "millstream-fencing-token",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
];

pub(super) fn action(reader: &mut Reader, path: &str, name: Name, node: &Node) -> ActionSpec {
    let mut spec = ActionSpec {
        name,
        kind: ActionKind::Noop { value: Template::Null },
        needs: Vec::new(),
        retry: RetryPolicy::default(),
        timeout: ActionSpec::DEFAULT_TIMEOUT,
        on_success: None,
        on_failure: None,
    };
    let Some(fields) = reader.fields(path, node, FIELDS) else { return spec };
    spec.kind = kind(reader, path, &fields);
    if let Some((path, node)) = fields.get("needs") {
        spec.needs = reader.names(&path, node);
    }
    if let Some((path, node)) = fields.get("retry") {
        spec.retry = retry(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("timeout")
        && let Some(timeout) = reader.length(&path, node)
    {
        spec.timeout = timeout;
    }
    if let Some((path, node)) = fields.get("on_success") {
        spec.on_success = reader.name(&path, node);
    }
    if let Some((path, node)) = fields.get("on_failure") {
        spec.on_failure = reader.name(&path, node);
    }
    spec
}

fn kind(reader: &mut Reader, path: &str, fields: &Fields<'_>) -> ActionKind {
    let nothing = ActionKind::Noop { value: Template::Null };
    let given: Vec<_> =
        KINDS.iter().filter_map(|kind| fields.get(kind).map(|found| (*kind, found))).collect();
    match &given[..] {
        [] => {
            reader.problem(path, "says nothing to do: one of http, log or noop is needed");
            nothing
        }
        [("http", (path, node))] => http(reader, path, node).map_or(nothing, ActionKind::Http),
        [("log", (path, node))] => {
            reader.text(path, node).map_or(nothing, |text| ActionKind::Log { text: Text(text.to_owned()) })
        }
        [(_, (path, node))] => ActionKind::Noop { value: template(reader, path, node) },
        [(first, _), (second, _), ..] => {
            reader.problem(path, format!("has both {first} and {second}: an action does one thing"));
            nothing
        }
    }
}

fn http(reader: &mut Reader, path: &str, node: &Node) -> Option<HttpSpec> {
    let fields = reader.fields(path, node, &["method", "url", "headers", "body"])?;
    let method = match fields.get("method") {
        Some((path, node)) => method(reader, &path, node),
        None => Method::Post,
    };
    let url = match fields.get("url") {
        Some((path, node)) => url(reader, &path, node),
        None => {
            reader.problem(join(path, "url"), "is missing");
            None
        }
    };
    let mut headers = BTreeMap::new();
    if let Some((path, node)) = fields.get("headers") {
        for (key, node) in reader.map(&path, node).unwrap_or_default() {
            header(reader, &join(&path, key), key, node, &mut headers);
        }
    }
    let body = fields.get("body").map(|(path, node)| template(reader, &path, node));
    Some(HttpSpec { method, url: url?, headers, body })
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
        reader.problem(path, format!("no method {text:?}{hint}: known are {}", known.join(", ")));
        Method::Post
    })
}

/// The scheme must be in plain sight: what an expression gives is encoded and cannot hold one.
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
            reader.problem(path, format!("must be a text, not {}", node.kind()));
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

fn retry(reader: &mut Reader, path: &str, node: &Node) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    let Some(fields) = reader.fields(path, node, &["attempts", "backoff", "max"]) else { return policy };
    if let Some((path, node)) = fields.get("attempts")
        && let Some(attempts) = reader.int(&path, node)
    {
        match u32::try_from(attempts) {
            Ok(count) if (1..=MAX_ATTEMPTS).contains(&attempts) => policy.attempts = count,
            Ok(_) | Err(_) => reader.problem(path, format!("must be from 1 to {MAX_ATTEMPTS}")),
        }
    }
    if let Some((path, node)) = fields.get("backoff")
        && let Some(backoff) = reader.length(&path, node)
    {
        policy.backoff = backoff;
    }
    match fields.get("max") {
        Some((path, node)) => {
            if let Some(max) = reader.length(&path, node) {
                policy.max = max;
                if max < policy.backoff {
                    reader.problem(path, "is shorter than the backoff");
                }
            }
        }
        // A backoff longer than the default cap means what it says.
        None => policy.max = policy.max.max(policy.backoff),
    }
    policy
}
