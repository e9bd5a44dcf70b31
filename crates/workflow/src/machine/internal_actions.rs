//! Internal actions of the engine, which no definition declares.

use std::time::Duration;

use millstream_expr::ValueTemplate;
use millstream_model::id::Name;
use millstream_model::retry::{Jitter, RetryPolicy};

use crate::definition::{ActionKind, ActionSpec, ActionTimeouts, FailureRule};

/// The spec of an internal action: many attempts, because no other component repeats it.
pub fn internal_action_spec(name: &Name) -> Option<ActionSpec> {
    if *name != Name::return_to_parent() && *name != Name::close_children() {
        return None;
    }
    Some(ActionSpec {
        name: name.clone(),
        kind: ActionKind::Noop { value: ValueTemplate::Null },
        needs: Vec::new(),
        retry: RetryPolicy {
            attempts: 1_000,
            backoff: Duration::from_millis(200),
            max: Duration::from_secs(60),
            jitter: Jitter::Half,
            except: Vec::new(),
        },
        timeouts: ActionTimeouts::of_attempt(ActionTimeouts::ATTEMPT),
        on_success: None,
        failure: FailureRule::Incident,
        undo: None,
        undoes: None,
    })
}
