//! Reads the retry policy and the timeouts of an action from the document tree.

use millstream_model::document::{DocumentFields, DocumentNode, DocumentReader};
use millstream_model::error_class::ErrorClass;
use millstream_model::retry::{Jitter, RetryPolicy};
use millstream_model::suggest::did_you_mean;

use super::actions::{ActionKind, ActionTimeouts};
use super::limits::MAX_ATTEMPTS;

pub(super) fn read_retry_policy(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    let known = &["attempts", "backoff", "max", "jitter", "except"];
    let Some(fields) = reader.read_fields(path, node, known) else { return policy };
    if let Some((path, node)) = fields.get("attempts")
        && let Some(attempts) = reader.read_integer(&path, node)
    {
        match u32::try_from(attempts) {
            Ok(count) if (1..=MAX_ATTEMPTS).contains(&attempts) => policy.attempts = count,
            Ok(_) | Err(_) => reader.add_problem(path, format!("must be from 1 to {MAX_ATTEMPTS}")),
        }
    }
    if let Some((path, node)) = fields.get("backoff")
        && let Some(backoff) = reader.read_duration(&path, node)
    {
        policy.backoff = backoff;
    }
    match fields.get("max") {
        Some((path, node)) => {
            if let Some(max) = reader.read_duration(&path, node) {
                policy.max = max;
                if max < policy.backoff {
                    reader.add_problem(path, "is shorter than the backoff");
                }
            }
        }
        // A backoff longer than the default cap raises the cap.
        None => policy.max = policy.max.max(policy.backoff),
    }
    if let Some((path, node)) = fields.get("jitter")
        && let Some(word) = reader.read_text(&path, node)
    {
        let words = Jitter::ALL.iter().map(|jitter| jitter.as_str());
        match Jitter::parse(word) {
            Some(jitter) => policy.jitter = jitter,
            None => {
                let hint = did_you_mean(word, words);
                reader.add_problem(path, format!("must be full, half or none, not {word:?}{hint}"));
            }
        }
    }
    if let Some((path, node)) = fields.get("except") {
        policy.except = reader.read_names(&path, node).into_iter().map(ErrorClass::named).collect();
    }
    policy
}

pub(super) fn read_timeouts(
    reader: &mut DocumentReader,
    fields: &DocumentFields<'_>,
    kind: &ActionKind,
) -> ActionTimeouts {
    let mut timeouts = ActionTimeouts::of_attempt(match kind {
        ActionKind::Call { .. } | ActionKind::Task(_) => ActionTimeouts::OWN_CODE,
        ActionKind::Log { .. }
        | ActionKind::Http(_)
        | ActionKind::Device(_)
        | ActionKind::TaskFor(_)
        | ActionKind::Emit(_)
        | ActionKind::Start(_)
        | ActionKind::Wait(_)
        | ActionKind::Webhook(_)
        | ActionKind::Noop { .. } => ActionTimeouts::ATTEMPT,
    });
    let mut short = None;
    if let Some((path, node)) = fields.get("timeout") {
        short = reader.read_duration(&path, node);
    }
    if let Some(timeout) = short {
        timeouts.start_to_close = timeout;
    }
    let Some((path, node)) = fields.get("timeouts") else { return timeouts };
    let known = &["start_to_close", "schedule_to_start", "schedule_to_close", "heartbeat"];
    let Some(each) = reader.read_fields(&path, node, known) else { return timeouts };
    let mut length = |field: &str| each.get(field).and_then(|(path, node)| reader.read_duration(&path, node));
    let start_to_close = length("start_to_close");
    timeouts.schedule_to_start = length("schedule_to_start");
    timeouts.schedule_to_close = length("schedule_to_close");
    timeouts.heartbeat = length("heartbeat");
    match (short, start_to_close) {
        (Some(_), Some(_)) => {
            reader.add_problem(
                format!("{path}.start_to_close"),
                "is the same setting as timeout: use only one of them",
            );
        }
        (None, Some(length)) => timeouts.start_to_close = length,
        (Some(_) | None, None) => {}
    }
    let own_code = matches!(kind, ActionKind::Call { .. } | ActionKind::Task(_));
    if timeouts.schedule_to_start.is_some() && matches!(kind, ActionKind::Wait(_)) {
        reader.add_problem(
            format!("{path}.schedule_to_start"),
            "is not supported for wait, which starts at once",
        );
    }
    if timeouts.heartbeat.is_some() && !own_code {
        let message = match kind {
            ActionKind::Device(_) => "is not supported for device: use device.settings.heartbeat",
            ActionKind::TaskFor(_) => "is not supported for task_for: the limits of its queue apply",
            ActionKind::Log { .. }
            | ActionKind::Http(_)
            | ActionKind::Call { .. }
            | ActionKind::Task(_)
            | ActionKind::Emit(_)
            | ActionKind::Start(_)
            | ActionKind::Wait(_)
            | ActionKind::Webhook(_)
            | ActionKind::Noop { .. } => "is supported for call and task only",
        };
        reader.add_problem(format!("{path}.heartbeat"), message);
    }
    timeouts
}
