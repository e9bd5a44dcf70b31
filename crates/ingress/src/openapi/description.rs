//! The description of an operation: what a caller has to know beyond the summary.
//!
//! The general sentences (repeats, waiting, who may call) are made from the route, so that they hold for every
//! operation that has the header or the permission.

use millstream_model::status::Role;

use crate::http::route::RouteOperation;

/// Operation ids, and what their summaries do not say.
const DETAILS: &[(&str, &str)] = &[
    (
        "put_definition",
        "JSON or YAML. A definition that is equal to the latest version makes no new version. Every problem of an \
         invalid definition is listed with its path.",
    ),
    (
        "start_execution",
        "An `execution_id` that exists with the same input is a repeat; with other input it is a conflict. Without \
         an `execution_id` the id is made from the `Idempotency-Key`, or is random without one. An array is answered \
         with one verdict per item.",
    ),
    (
        "get_execution",
        "With `at_seq` or `at` the state and the context are those after that transition or at that time.",
    ),
    (
        "cancel_execution",
        "The cancellation is an event in the mailbox: events that were accepted earlier are decided first.",
    ),
    (
        "tail_execution",
        "Server-sent events: `transition`, whose id is the seq, and `end` once the execution has ended and everything \
         was sent. A client that reconnects with `Last-Event-ID` misses nothing. The stream also closes when the \
         server shuts down; reconnect then.",
    ),
    (
        "post_event",
        "202 means that the event is durable. The execution applies its events in the order of acceptance. With \
         `Millstream-Validate: state` an event that the current state neither handles nor defers is refused.",
    ),
    (
        "post_events",
        "An array, or one event per line (NDJSON). The verdict of an item does not depend on the other items; each \
         item may have an `idempotency_key`.",
    ),
    (
        "post_signal",
        "Without an execution that has the correlation the signal is buffered for `wait_for` and becomes an event of \
         the first one that has it. Several executions with the correlation are a conflict: name the `definition`.",
    ),
    (
        "retry_incident",
        "Without `input` the action is retried under its key, so that an idempotent receiver performs it once. An \
         edited `input` is new work with a new key.",
    ),
    (
        "lease_tasks",
        "Answers at once with the available tasks, or waits for up to `wait` seconds. A lease ends without a heartbeat \
         within `heartbeat_ms`; the task is then leased to another worker, under another `token`.",
    ),
    (
        "heartbeat_task",
        "Fenced by the `token` of the lease. `cancelled` says that the result is no longer needed. The key of a task is \
         one part of the path: its slashes are percent-encoded.",
    ),
    (
        "complete_task",
        "Fenced by the `token` of the lease; a repeated completion is not an error. The key of a task is one part of the \
         path: its slashes are percent-encoded.",
    ),
    (
        "fail_task",
        "Fenced by the `token` of the lease. The key of a task is one part of the path: its slashes are \
         percent-encoded.",
    ),
    (
        "create_graph",
        "The same content under the same `graph_id` is a repeat; other content is a conflict. The graph is also an \
         execution with the same id.",
    ),
    (
        "edit_graph",
        "`expected_revision` refuses the edits when another client has changed the graph. Without `Prefer` the call \
         waits for up to 10 seconds for the decision.",
    ),
    (
        "report_result",
        "For an executor that has accepted a node and reports later. Fenced by the token of the attempt; a repeated \
         result is not an error.",
    ),
    (
        "watch_graph",
        "Server-sent events. A client that continues after the id of its last event misses nothing and receives nothing \
         twice.",
    ),
    (
        "register_executor",
        "An executor registers again within every `beat_every`. One that missed three registrations is not called.",
    ),
    (
        "get_assignments",
        "With `wait` the call waits until there is an assignment, or until the list differs from `if_version`.",
    ),
    (
        "create_run",
        "The same content under the same `run_id` is a repeat; other content is a conflict. `why` explains the selection \
         of devices.",
    ),
    (
        "import_items",
        "Items are imported in batches as they arrive, in any number as NDJSON. A repeated import is safe: an item with \
         identical content is a repeat, and an item without an `item_id` gets one made of its content.",
    ),
    (
        "next_assignment",
        "With `start` the assignment begins at once. A person at their limit receives the assignment that they are \
         working on, so that a lost answer loses nothing. Without work the answer names the reason in `idle`.",
    ),
    (
        "submit_assignment",
        "The answer is validated by the schema and then by the rules of the queue; every problem is listed with its \
         place in the answer.",
    ),
    (
        "create_key",
        "The secret is in `key` of this answer only. A lost answer is not repeated: revoke the key.",
    ),
    (
        "rotate_key",
        "Both keys are valid until the overlap ends. The secret of the successor is in this answer only.",
    ),
    ("readyz", "For load balancers: 503 takes the process out of rotation. `healthz` is for supervisors."),
];

/// The description of an operation, in Markdown.
pub(super) fn describe_call(doc: &RouteOperation) -> String {
    let mut sentences = Vec::new();
    sentences.extend(DETAILS.iter().filter(|(id, _)| *id == doc.id).map(|(_, text)| (*text).to_owned()));
    if doc.headers.contains(&"Idempotency-Key") {
        sentences.push(
            "A repeat with the same `Idempotency-Key` has no second effect; other content under the same key is \
             refused."
                .to_owned(),
        );
    }
    if doc.headers.contains(&"Prefer") {
        sentences.push("`Prefer: wait=N` waits for the outcome for up to N seconds.".to_owned());
    }
    sentences.push(match doc.needs {
        Some(permission) => {
            let roles = Role::ALL.iter().filter(|role| role.permits(permission));
            let roles: Vec<_> = roles.map(|role| format!("`{role}`")).collect();
            format!("Needs the permission `{permission}`: a key of the role {}.", any_of(&roles))
        }
        None => "Needs no key.".to_owned(),
    });
    sentences.join("\n\n")
}

/// `a`, `a or b`, `a, b or c`.
fn any_of(words: &[String]) -> String {
    match words {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::all_routes;

    #[test]
    fn details_name_operations() {
        let routes = all_routes();
        let unknown: Vec<_> =
            DETAILS.iter().filter(|(id, _)| !routes.iter().any(|route| route.doc.id == *id)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn roles_are_listed_as_alternatives() {
        let words: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(any_of(&words), "a, b or c");
        assert_eq!(any_of(&words[..1]), "a");
    }
}
