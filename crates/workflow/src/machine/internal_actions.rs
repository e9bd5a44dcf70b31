//! Internal actions of the engine, which no definition declares.

use std::time::Duration;

use millstream_model::id::Name;
use millstream_model::retry::{Jitter, RetryPolicy};

use crate::definition::{ActionPolicy, ActionTimeouts, FailureRule};

/// The policy of an internal action: many attempts, because no other component repeats it.
pub fn internal_action_policy(name: &Name) -> Option<ActionPolicy> {
    if *name != Name::return_to_parent() && *name != Name::close_children() {
        return None;
    }
    Some(ActionPolicy {
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
    })
}
