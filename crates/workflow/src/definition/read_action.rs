//! Reads the common part of actions from the document tree. [`super::read_kind`] reads their kind,
//! [`super::read_policy`] their retries and timeouts.

use std::collections::BTreeMap;

use millstream_expr::ValueTemplate;
use millstream_model::document::{DocumentFields, DocumentNode, DocumentReader, join_path};
use millstream_model::id::Name;
use millstream_model::retry::RetryPolicy;

use super::actions::{ActionKind, ActionPolicy, ActionSpec, ActionTimeouts, FailureRule};
use super::limits::MAX_ACTIONS;
use super::{read_kind, read_policy};

/// Fields of every kind of action.
const FIELDS: &[&str] =
    &["needs", "retry", "timeout", "timeouts", "on_success", "on_failure", "compensate", "undo"];

pub(super) fn read_actions(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
) -> BTreeMap<Name, ActionSpec> {
    let mut actions = BTreeMap::new();
    let entries = reader.read_map(path, node).unwrap_or_default();
    reader.check_limit(path, "actions", entries.len(), MAX_ACTIONS);
    for (key, node) in entries {
        let path = join_path(path, key);
        if let Some(name) = reader.parse_declared_name(&path, key) {
            let spec = read_action(reader, &path, name.clone(), node);
            actions.insert(name, spec);
        }
    }
    let undone: Vec<(Name, Name)> = actions
        .values()
        .filter_map(|spec: &ActionSpec| spec.undo.clone().map(|undo| (undo, spec.name.clone())))
        .collect();
    for (undo, undone) in undone {
        if let Some(spec) = actions.get_mut(&undo) {
            match &spec.undoes {
                Some(other) => reader.add_problem(
                    format!("{path}.{undone}.undo"),
                    format!(
                        "{:?} already undoes {:?}: an undo action cannot be shared",
                        undo.as_str(),
                        other.as_str()
                    ),
                ),
                None => spec.undoes = Some(undone),
            }
        }
    }
    actions
}

fn read_action(reader: &mut DocumentReader, path: &str, name: Name, node: &DocumentNode) -> ActionSpec {
    let mut spec = ActionSpec {
        name,
        kind: ActionKind::Noop { value: ValueTemplate::Null },
        needs: Vec::new(),
        policy: ActionPolicy {
            retry: RetryPolicy::default(),
            timeouts: ActionTimeouts::of_attempt(ActionTimeouts::ATTEMPT),
            on_success: None,
            failure: FailureRule::Incident,
        },
        undo: None,
        undoes: None,
    };
    let known: Vec<&str> = read_kind::FIELDS.iter().chain(FIELDS).copied().collect();
    let Some(fields) = reader.read_fields(path, node, &known) else { return spec };
    spec.kind = read_kind::read_kind(reader, path, &fields);
    if let Some((path, node)) = fields.get("needs") {
        spec.needs = reader.read_names(&path, node);
    }
    if let Some((path, node)) = fields.get("retry") {
        spec.policy.retry = read_policy::read_retry_policy(reader, &path, node);
    }
    spec.policy.timeouts = read_policy::read_timeouts(reader, &fields, &spec.kind);
    if let Some((path, node)) = fields.get("on_success") {
        spec.policy.on_success = reader.read_name(&path, node);
    }
    spec.policy.failure = read_failure_rule(reader, path, &fields);
    if let Some((path, node)) = fields.get("undo") {
        spec.undo = reader.read_name(&path, node);
    }
    spec
}

fn read_failure_rule(reader: &mut DocumentReader, path: &str, fields: &DocumentFields<'_>) -> FailureRule {
    let on_failure = fields.get("on_failure").and_then(|(path, node)| reader.read_name(&path, node));
    let compensate = fields.get("compensate").and_then(|(path, node)| reader.read_name(&path, node));
    match (on_failure, compensate) {
        (None, None) => FailureRule::Incident,
        (Some(event), None) => FailureRule::Emit(event),
        (None, Some(event)) => FailureRule::Compensate(event),
        (Some(_), Some(event)) => {
            reader.add_problem(
                path,
                "has both on_failure and compensate: compensate sends its event once everything is undone",
            );
            FailureRule::Compensate(event)
        }
    }
}
