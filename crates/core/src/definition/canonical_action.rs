//! The canonical form of an action. Fields that were added in a later release are written only if they are
//! set, so that the checksums of existing definitions do not change.

use super::actions::{
    ActionKind, ActionSpec, DeviceSpec, EmitTarget, FailureRule, HttpSpec, StartSpec, TaskForSpec, TaskSpec,
    Timeouts, WaitSpec,
};
use super::canonical::{entry, name, names, template};
use super::document::Node;
use super::template::Template;
use crate::assignment::item::Own;
use crate::claim::Overrides;
use crate::duration;
use crate::retry::{Jitter, RetryPolicy};

type Entries = Vec<(String, Node)>;

pub(super) fn action(spec: &ActionSpec) -> Node {
    let mut entries = vec![entry("retry", retry(&spec.retry))];
    entries.push(entry("timeout", length(spec.timeouts.start_to_close)));
    entries.extend(timeouts(&spec.timeouts));
    entries.extend(kind(&spec.kind));
    if !spec.needs.is_empty() {
        entries.push(entry("needs", names(&spec.needs)));
    }
    if let Some(event) = &spec.on_success {
        entries.push(entry("on_success", name(event)));
    }
    match &spec.failure {
        FailureRule::Incident => {}
        FailureRule::Emit(event) => entries.push(entry("on_failure", name(event))),
        FailureRule::Compensate(event) => entries.push(entry("compensate", name(event))),
    }
    if let Some(undo) = &spec.undo {
        entries.push(entry("undo", name(undo)));
    }
    Node::Map(entries)
}

fn length(length: std::time::Duration) -> Node {
    Node::text(duration::format(length))
}

fn retry(policy: &RetryPolicy) -> Node {
    let mut entries = vec![
        entry("attempts", Node::Int(i64::from(policy.attempts))),
        entry("backoff", length(policy.backoff)),
        entry("max", length(policy.max)),
    ];
    if policy.jitter != Jitter::Full {
        entries.push(entry("jitter", Node::text(policy.jitter.as_str())));
    }
    if !policy.except.is_empty() {
        let except = policy.except.iter().map(|class| Node::text(class.as_str()));
        entries.push(entry("except", Node::List(except.collect())));
    }
    Node::Map(entries)
}

fn timeouts(timeouts: &Timeouts) -> Option<(String, Node)> {
    let Timeouts { start_to_close: _, schedule_to_start, schedule_to_close, heartbeat } = *timeouts;
    let given: Entries = [
        ("schedule_to_start", schedule_to_start),
        ("schedule_to_close", schedule_to_close),
        ("heartbeat", heartbeat),
    ]
    .into_iter()
    .filter_map(|(field, given)| Some(entry(field, length(given?))))
    .collect();
    (!given.is_empty()).then(|| entry("timeouts", Node::Map(given)))
}

fn kind(kind: &ActionKind) -> Entries {
    match kind {
        ActionKind::Log { text } => vec![entry("log", Node::text(&text.0))],
        ActionKind::Noop { value } => vec![entry("noop", template(value))],
        ActionKind::Http(spec) => vec![entry("http", http(spec))],
        ActionKind::Call { function, input } => {
            let mut entries = vec![entry("call", name(function))];
            push_tree(&mut entries, "input", input);
            entries
        }
        ActionKind::Task(spec) => vec![entry("task", task(spec))],
        ActionKind::Device(spec) => vec![entry("device", device(spec))],
        ActionKind::TaskFor(spec) => vec![entry("task_for", task_for(spec))],
        ActionKind::Emit(spec) => {
            let target = match &spec.to {
                EmitTarget::Execution(text) => entry("to", Node::text(&text.0)),
                EmitTarget::Correlation(text) => entry("correlation", Node::text(&text.0)),
            };
            let mut entries = vec![target, entry("event", name(&spec.event))];
            push_tree(&mut entries, "payload", &spec.payload);
            vec![entry("emit", Node::Map(entries))]
        }
        ActionKind::Start(spec) => vec![entry("start", start(spec))],
        ActionKind::Wait(WaitSpec::Until(source)) => {
            vec![entry("wait", Node::Map(vec![entry("until", Node::text(source))]))]
        }
        ActionKind::Wait(WaitSpec::For(span)) => {
            vec![entry("wait", Node::Map(vec![entry("for", length(*span))]))]
        }
        ActionKind::Webhook(spec) => {
            let mut entries = vec![
                entry("url", Node::text(&spec.url.0)),
                entry("type", Node::text(&spec.event_type.0)),
                entry("secret", name(&spec.secret)),
            ];
            push_tree(&mut entries, "data", &spec.data);
            vec![entry("webhook", Node::Map(entries))]
        }
    }
}

/// Omits a null value, which is equivalent to an absent field.
fn push_tree(entries: &mut Entries, field: &str, value: &Template) {
    if *value != Template::Null {
        entries.push(entry(field, template(value)));
    }
}

fn device(spec: &DeviceSpec) -> Node {
    let mut entries = vec![entry("kind", name(&spec.kind))];
    for (field, capabilities) in [("requires", &spec.requires), ("prefer", &spec.prefer)] {
        if !capabilities.is_empty() {
            entries.push(entry(field, names(capabilities)));
        }
    }
    push_tree(&mut entries, "input", &spec.input);
    entries.push(entry("priority", Node::Int(i64::from(spec.priority))));
    entries.push(entry("devices", Node::Int(i64::from(spec.devices))));
    for (field, truth) in [("preempt", spec.preempt), ("coordinator", spec.coordinator)] {
        if truth {
            entries.push(entry(field, Node::Bool(true)));
        }
    }
    entries.extend(spec.min_battery.map(|percent| entry("min_battery", Node::Int(i64::from(percent)))));
    let Overrides { assignment_timeout, claim_timeout, heartbeat, heartbeat_timeout, max_reassignments } =
        spec.settings;
    let mut settings: Entries = [
        ("assignment_timeout", assignment_timeout),
        ("claim_timeout", claim_timeout),
        ("heartbeat", heartbeat),
        ("heartbeat_timeout", heartbeat_timeout),
    ]
    .into_iter()
    .filter_map(|(field, given)| Some(entry(field, length(given?))))
    .collect();
    settings.extend(max_reassignments.map(|most| entry("max_reassignments", Node::Int(i64::from(most)))));
    if !settings.is_empty() {
        entries.push(entry("settings", Node::Map(settings)));
    }
    Node::Map(entries)
}

fn task_for(spec: &TaskForSpec) -> Node {
    let mut entries = vec![entry("queue", name(&spec.queue))];
    push_tree(&mut entries, "payload", &spec.payload);
    let Own { priority, skills, overlap } = &spec.own;
    entries.extend(priority.map(|priority| entry("priority", Node::Int(i64::from(priority)))));
    if !skills.is_empty() {
        entries.push(entry("skills", names(skills)));
    }
    entries.extend(overlap.map(|overlap| entry("overlap", Node::Int(i64::from(overlap)))));
    entries.extend(spec.due.map(|due| entry("due", length(due))));
    Node::Map(entries)
}

fn task(spec: &TaskSpec) -> Node {
    let mut entries = vec![entry("type", name(&spec.kind))];
    if !spec.labels.is_empty() {
        entries.push(entry("labels", names(&spec.labels)));
    }
    push_tree(&mut entries, "input", &spec.input);
    Node::Map(entries)
}

fn start(spec: &StartSpec) -> Node {
    let mut entries = vec![
        entry("definition", name(&spec.definition)),
        entry("parent_close", Node::text(spec.parent_close.as_str())),
    ];
    if let Some(version) = spec.version {
        entries.push(entry("version", Node::Int(i64::from(version))));
    }
    if let Some(id) = &spec.execution_id {
        entries.push(entry("execution_id", Node::text(&id.0)));
    }
    push_tree(&mut entries, "input", &spec.input);
    Node::Map(entries)
}

fn http(spec: &HttpSpec) -> Node {
    let mut fields =
        vec![entry("method", Node::text(spec.method.as_str())), entry("url", Node::text(&spec.url.0))];
    if !spec.headers.is_empty() {
        let headers = spec.headers.iter().map(|(key, value)| entry(key, Node::text(&value.0)));
        fields.push(entry("headers", Node::Map(headers.collect())));
    }
    if let Some(body) = &spec.body {
        fields.push(entry("body", template(body)));
    }
    if !spec.expect.is_empty() {
        let expect = spec.expect.iter().map(|pattern| Node::text(pattern.to_string()));
        fields.push(entry("expect", Node::List(expect.collect())));
    }
    if let Some(result) = &spec.result {
        fields.push(entry("result", template(result)));
    }
    if let Some(bytes) = spec.max_response {
        fields.push(entry("max_response", Node::Int(i64::try_from(bytes).unwrap_or(i64::MAX))));
    }
    Node::Map(fields)
}
