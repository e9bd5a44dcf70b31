//! Why no worker performs an action: a pure function of its state and the connected workers.

use std::collections::BTreeSet;

use millstream_api::tasks::ConnectedWorker;
use millstream_model::action_queue::{QueueParts, TaskMismatch, WorkerCapability};
use millstream_model::attempt::ActionFailure;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{Name, WorkerId};
use millstream_model::quota::QuotaRefusal;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::task_board::ExternalWorkerView;
use millstream_store::views::ActionRecord;
use millstream_store::worker_store::WorkerRecord;

/// The reason, in words, and all connected workers.
#[derive(Debug)]
pub(crate) struct TaskDiagnosis {
    pub(crate) reason: String,
    pub(crate) connected: Vec<ConnectedWorker>,
}

pub(crate) fn diagnose_task(
    view: &ActionRecord,
    external: Vec<ExternalWorkerView>,
    engine: Vec<WorkerRecord>,
    at_quota: Option<QuotaRefusal>,
    now: Timestamp,
) -> TaskDiagnosis {
    let connected: Vec<ConnectedWorker> = match view.queue.parts() {
        Some(QueueParts::Task { tenant: _, kind, labels }) => {
            external.into_iter().map(|found| external_candidate(found, &kind, &labels)).collect()
        }
        Some(QueueParts::Call { tenant: _, function }) => {
            engine.into_iter().map(|found| engine_candidate(found, Some(&function))).collect()
        }
        Some(QueueParts::Engine { .. } | QueueParts::Node { .. }) | None => {
            engine.into_iter().map(|found| engine_candidate(found, None)).collect()
        }
    };
    let reason = reason_of_state(view, &connected, now);
    let reason = match at_quota.map(|refusal| refusal.to_string()).or_else(|| quota_waited_for(view)) {
        Some(quota) => format!("{reason}; {quota}"),
        None => reason,
    };
    TaskDiagnosis { reason, connected }
}

/// The quota for which a postponed action waits.
fn quota_waited_for(view: &ActionRecord) -> Option<String> {
    let error: ActionFailure =
        view.error.as_ref().filter(|_| view.status == ActionStatus::Ready)?.decode().ok()?;
    (error.class == ErrorClass::Quota).then_some(error.message)
}

fn external_candidate(found: ExternalWorkerView, kind: &Name, labels: &BTreeSet<Name>) -> ConnectedWorker {
    let presence = found.presence;
    let can = WorkerCapability { tenant: presence.tenant, kinds: presence.kinds, labels: presence.labels };
    let missing = match can.check_fit(kind, labels) {
        Ok(()) => None,
        Err(TaskMismatch::Kind) => Some(format!("does not ask for the type {:?}", kind.as_str())),
        Err(TaskMismatch::Labels(labels)) => {
            Some(format!("lacks the labels {}", join_words(labels.iter().map(Name::as_str))))
        }
    };
    ConnectedWorker {
        worker: presence.name,
        types: name_texts(can.kinds),
        labels: name_texts(can.labels),
        functions: Vec::new(),
        seen_at: found.seen_at,
        missing,
    }
}

fn engine_candidate(found: WorkerRecord, function: Option<&Name>) -> ConnectedWorker {
    let missing = function
        .filter(|function| !found.beat.calls.contains(function))
        .map(|function| format!("has no function {:?}", function.as_str()));
    ConnectedWorker {
        worker: found.beat.worker.to_string(),
        types: Vec::new(),
        labels: Vec::new(),
        functions: name_texts(found.beat.calls),
        seen_at: found.seen_at,
        missing,
    }
}

fn reason_of_state(view: &ActionRecord, connected: &[ConnectedWorker], now: Timestamp) -> String {
    match view.status {
        ActionStatus::Waiting => {
            format!("it waits for {}", join_words(view.needs.iter().map(Name::as_str)))
        }
        ActionStatus::Ready => match view.next_attempt_at.filter(|at| *at > now) {
            Some(at) => format!("the next attempt, number {}, begins at {at}", view.attempts + 1),
            None => why_not_taken(view, connected),
        },
        ActionStatus::Leased => {
            let holder = view.worker_id.as_ref().map_or("a worker", WorkerId::as_str);
            match view.lease_until {
                Some(until) if until <= now => format!(
                    "{holder} holds it, but its lease expired at {until}; {}",
                    why_not_taken(view, connected)
                ),
                Some(until) => format!("{holder} holds it until {until}, or longer with a heartbeat"),
                None => format!("{holder} holds it"),
            }
        }
        ActionStatus::Awaiting => "it has started and waits for its child execution to end".to_owned(),
        ActionStatus::Standby => "it compensates another action, which has not been requested".to_owned(),
        ActionStatus::Succeeded | ActionStatus::Failed | ActionStatus::Skipped | ActionStatus::Cancelled => {
            format!("it is over: {}", view.status)
        }
    }
}

/// Why no other worker takes it.
fn why_not_taken(view: &ActionRecord, connected: &[ConnectedWorker]) -> String {
    let what = match view.queue.parts() {
        Some(QueueParts::Task { kind, labels, .. }) if labels.is_empty() => {
            format!("a worker that asks for the type {:?}", kind.as_str())
        }
        Some(QueueParts::Task { kind, labels, .. }) => format!(
            "a worker that asks for the type {:?} and has the labels {}",
            kind.as_str(),
            join_words(labels.iter().map(Name::as_str))
        ),
        Some(QueueParts::Call { tenant: _, function }) => {
            format!("a worker with the function {:?}", function.as_str())
        }
        Some(QueueParts::Node { role, .. }) if !role.is_empty() => {
            format!("a worker that knows of an executor with the role {role:?}")
        }
        Some(QueueParts::Node { .. }) => "a worker that knows of an executor".to_owned(),
        Some(QueueParts::Engine { .. }) | None => "a worker".to_owned(),
    };
    let able = connected.iter().filter(|candidate| candidate.missing.is_none()).count();
    match (able, connected.len()) {
        (0, 0) => format!("it needs {what}; no worker is connected"),
        (0, 1) => format!("it needs {what}; the one connected worker does not match"),
        (0, others) => format!("it needs {what}; none of the {others} connected workers matches"),
        (1, _) => "it is ready, and one connected worker can take it: it may be busy".to_owned(),
        (able, _) => format!("it is ready, and {able} connected workers can take it: they may be busy"),
    }
}

fn name_texts(names: impl IntoIterator<Item = Name>) -> Vec<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}

fn join_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
