//! The canonical form of an action. Fields that were added in a later release are written only if they are
//! set, so that the checksums of existing definitions do not change.

use millstream_devices::claim::RunSettingsOverrides;
use millstream_expr::ValueTemplate;
use millstream_model::document::DocumentNode;
use millstream_model::duration;
use millstream_model::retry::{Jitter, RetryPolicy};
use millstream_people::assignment::item::ItemOverrides;

use super::actions::{
    ActionKind, ActionSpec, ActionTimeouts, DeviceSpec, EmitTarget, FailureRule, HttpSpec, StartSpec,
    TaskForSpec, TaskSpec, WaitSpec,
};
use super::canonical::{map_entry, name_list_node, name_node, template_node};

type CanonicalEntries = Vec<(String, DocumentNode)>;

pub(super) fn action_node(spec: &ActionSpec) -> DocumentNode {
    let mut entries = vec![map_entry("retry", retry_node(&spec.policy.retry))];
    entries.push(map_entry("timeout", duration_node(spec.policy.timeouts.start_to_close)));
    entries.extend(timeouts_entry(&spec.policy.timeouts));
    entries.extend(kind_entries(&spec.kind));
    if !spec.needs.is_empty() {
        entries.push(map_entry("needs", name_list_node(&spec.needs)));
    }
    if let Some(event) = &spec.policy.on_success {
        entries.push(map_entry("on_success", name_node(event)));
    }
    match &spec.policy.failure {
        FailureRule::Incident => {}
        FailureRule::Emit(event) => entries.push(map_entry("on_failure", name_node(event))),
        FailureRule::Compensate(event) => entries.push(map_entry("compensate", name_node(event))),
    }
    if let Some(undo) = &spec.undo {
        entries.push(map_entry("undo", name_node(undo)));
    }
    DocumentNode::Map(entries)
}

fn duration_node(length: std::time::Duration) -> DocumentNode {
    DocumentNode::text(duration::format_duration(length))
}

fn retry_node(policy: &RetryPolicy) -> DocumentNode {
    let mut entries = vec![
        map_entry("attempts", DocumentNode::Int(i64::from(policy.attempts))),
        map_entry("backoff", duration_node(policy.backoff)),
        map_entry("max", duration_node(policy.max)),
    ];
    if policy.jitter != Jitter::Full {
        entries.push(map_entry("jitter", DocumentNode::text(policy.jitter.as_str())));
    }
    if !policy.except.is_empty() {
        let except = policy.except.iter().map(|class| DocumentNode::text(class.as_str()));
        entries.push(map_entry("except", DocumentNode::List(except.collect())));
    }
    DocumentNode::Map(entries)
}

fn timeouts_entry(timeouts: &ActionTimeouts) -> Option<(String, DocumentNode)> {
    let ActionTimeouts { start_to_close: _, schedule_to_start, schedule_to_close, heartbeat } = *timeouts;
    let given: CanonicalEntries = [
        ("schedule_to_start", schedule_to_start),
        ("schedule_to_close", schedule_to_close),
        ("heartbeat", heartbeat),
    ]
    .into_iter()
    .filter_map(|(field, given)| Some(map_entry(field, duration_node(given?))))
    .collect();
    (!given.is_empty()).then(|| map_entry("timeouts", DocumentNode::Map(given)))
}

fn kind_entries(kind: &ActionKind) -> CanonicalEntries {
    match kind {
        ActionKind::Log { text } => vec![map_entry("log", DocumentNode::text(&text.0))],
        ActionKind::Noop { value } => vec![map_entry("noop", template_node(value))],
        ActionKind::Http(spec) => vec![map_entry("http", http_node(spec))],
        ActionKind::Call { function, input } => {
            let mut entries = vec![map_entry("call", name_node(function))];
            push_template(&mut entries, "input", input);
            entries
        }
        ActionKind::Task(spec) => vec![map_entry("task", task_node(spec))],
        ActionKind::Device(spec) => vec![map_entry("device", device_node(spec))],
        ActionKind::TaskFor(spec) => vec![map_entry("task_for", task_for_node(spec))],
        ActionKind::Emit(spec) => {
            let target = match &spec.to {
                EmitTarget::Execution(text) => map_entry("to", DocumentNode::text(&text.0)),
                EmitTarget::Correlation(text) => map_entry("correlation", DocumentNode::text(&text.0)),
            };
            let mut entries = vec![target, map_entry("event", name_node(&spec.event))];
            push_template(&mut entries, "payload", &spec.payload);
            vec![map_entry("emit", DocumentNode::Map(entries))]
        }
        ActionKind::Start(spec) => vec![map_entry("start", start_node(spec))],
        ActionKind::Wait(WaitSpec::Until(source)) => {
            vec![map_entry("wait", DocumentNode::Map(vec![map_entry("until", DocumentNode::text(source))]))]
        }
        ActionKind::Wait(WaitSpec::For(span)) => {
            vec![map_entry("wait", DocumentNode::Map(vec![map_entry("for", duration_node(*span))]))]
        }
        ActionKind::Webhook(spec) => {
            let mut entries = vec![
                map_entry("url", DocumentNode::text(&spec.url.0)),
                map_entry("type", DocumentNode::text(&spec.event_type.0)),
                map_entry("secret", name_node(&spec.secret)),
            ];
            push_template(&mut entries, "data", &spec.data);
            vec![map_entry("webhook", DocumentNode::Map(entries))]
        }
    }
}

/// Omits a null value, which is equivalent to an absent field.
fn push_template(entries: &mut CanonicalEntries, field: &str, value: &ValueTemplate) {
    if *value != ValueTemplate::Null {
        entries.push(map_entry(field, template_node(value)));
    }
}

fn device_node(spec: &DeviceSpec) -> DocumentNode {
    let mut entries = vec![map_entry("kind", name_node(&spec.kind))];
    for (field, capabilities) in [("requires", &spec.requires), ("prefer", &spec.prefer)] {
        if !capabilities.is_empty() {
            entries.push(map_entry(field, name_list_node(capabilities)));
        }
    }
    push_template(&mut entries, "input", &spec.input);
    entries.push(map_entry("priority", DocumentNode::Int(i64::from(spec.priority))));
    entries.push(map_entry("devices", DocumentNode::Int(i64::from(spec.devices))));
    for (field, truth) in [("preempt", spec.preempt), ("coordinator", spec.coordinator)] {
        if truth {
            entries.push(map_entry(field, DocumentNode::Bool(true)));
        }
    }
    entries.extend(
        spec.min_battery.map(|percent| map_entry("min_battery", DocumentNode::Int(i64::from(percent)))),
    );
    let RunSettingsOverrides {
        assignment_timeout,
        claim_timeout,
        heartbeat,
        heartbeat_timeout,
        max_reassignments,
    } = spec.settings;
    let mut settings: CanonicalEntries = [
        ("assignment_timeout", assignment_timeout),
        ("claim_timeout", claim_timeout),
        ("heartbeat", heartbeat),
        ("heartbeat_timeout", heartbeat_timeout),
    ]
    .into_iter()
    .filter_map(|(field, given)| Some(map_entry(field, duration_node(given?))))
    .collect();
    settings.extend(
        max_reassignments.map(|most| map_entry("max_reassignments", DocumentNode::Int(i64::from(most)))),
    );
    if !settings.is_empty() {
        entries.push(map_entry("settings", DocumentNode::Map(settings)));
    }
    DocumentNode::Map(entries)
}

fn task_for_node(spec: &TaskForSpec) -> DocumentNode {
    let mut entries = vec![map_entry("queue", name_node(&spec.queue))];
    push_template(&mut entries, "payload", &spec.payload);
    let ItemOverrides { priority, skills, overlap } = &spec.own;
    entries.extend(priority.map(|priority| map_entry("priority", DocumentNode::Int(i64::from(priority)))));
    if !skills.is_empty() {
        entries.push(map_entry("skills", name_list_node(skills)));
    }
    entries.extend(overlap.map(|overlap| map_entry("overlap", DocumentNode::Int(i64::from(overlap)))));
    entries.extend(spec.due.map(|due| map_entry("due", duration_node(due))));
    DocumentNode::Map(entries)
}

fn task_node(spec: &TaskSpec) -> DocumentNode {
    let mut entries = vec![map_entry("type", name_node(&spec.kind))];
    if !spec.labels.is_empty() {
        entries.push(map_entry("labels", name_list_node(&spec.labels)));
    }
    push_template(&mut entries, "input", &spec.input);
    DocumentNode::Map(entries)
}

fn start_node(spec: &StartSpec) -> DocumentNode {
    let mut entries = vec![
        map_entry("definition", name_node(&spec.definition)),
        map_entry("parent_close", DocumentNode::text(spec.parent_close.as_str())),
    ];
    if let Some(version) = spec.version {
        entries.push(map_entry("version", DocumentNode::Int(i64::from(version))));
    }
    if let Some(id) = &spec.execution_id {
        entries.push(map_entry("execution_id", DocumentNode::text(&id.0)));
    }
    push_template(&mut entries, "input", &spec.input);
    DocumentNode::Map(entries)
}

fn http_node(spec: &HttpSpec) -> DocumentNode {
    let mut fields = vec![
        map_entry("method", DocumentNode::text(spec.method.as_str())),
        map_entry("url", DocumentNode::text(&spec.url.0)),
    ];
    if !spec.headers.is_empty() {
        let headers = spec.headers.iter().map(|(key, value)| map_entry(key, DocumentNode::text(&value.0)));
        fields.push(map_entry("headers", DocumentNode::Map(headers.collect())));
    }
    if let Some(body) = &spec.body {
        fields.push(map_entry("body", template_node(body)));
    }
    if !spec.expect.is_empty() {
        let expect = spec.expect.iter().map(|pattern| DocumentNode::text(pattern.to_string()));
        fields.push(map_entry("expect", DocumentNode::List(expect.collect())));
    }
    if let Some(result) = &spec.result {
        fields.push(map_entry("result", template_node(result)));
    }
    if let Some(bytes) = spec.max_response {
        fields.push(map_entry("max_response", DocumentNode::Int(i64::try_from(bytes).unwrap_or(i64::MAX))));
    }
    DocumentNode::Map(fields)
}
