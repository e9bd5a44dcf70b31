//! The actions of a worker by name, as the engine calls them.

use std::collections::BTreeMap;
use std::fmt;

use millstream_model::attempt::{ActionFailure as Told, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::Name;
use millstream_worker::{ActionCall, PerformCalls};

use super::context::ActionContext;
use super::erased::ActionFn;

#[derive(Default)]
pub(crate) struct ActionRegistry(BTreeMap<Name, ActionFn>);

impl ActionRegistry {
    /// Fails when the name is invalid or taken.
    pub(crate) fn add_action(&mut self, name: &str, action: ActionFn) -> Result<(), String> {
        let parsed = Name::parse(name).map_err(|error| format!("the action name {name:?} {error}"))?;
        match self.0.insert(parsed, action) {
            None => Ok(()),
            Some(_) => Err(format!("there are two actions {name:?}")),
        }
    }
}

#[async_trait::async_trait]
impl PerformCalls for ActionRegistry {
    fn action_names(&self) -> Vec<Name> {
        self.0.keys().cloned().collect()
    }

    async fn perform_call(&self, call: ActionCall) -> AttemptOutcome {
        match self.0.get(&call.name) {
            Some(action) => {
                let (context, input) = ActionContext::of_call(call);
                action(context, input).await
            }
            None => unknown_action(&call.name),
        }
    }
}

/// The engine reads our names before it hands an action over: another worker may have this one.
fn unknown_action(name: &Name) -> AttemptOutcome {
    let message = format!("this worker has no action {name:?}");
    AttemptOutcome::Transient {
        error: Told { class: ErrorClass::Internal, message, status: None },
        retry_after: None,
    }
}

impl fmt::Debug for ActionRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_model::id::{ActionKey, ExecutionId, ExecutionKey, Seq, TenantId};
    use millstream_model::raw::RawJson;
    use millstream_worker::{AttemptBeat, AttemptPulse};
    use tokio::sync::watch;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::action::{ActionError, erase_action};

    async fn double(ctx: ActionContext, n: u64) -> Result<u64, ActionError> {
        ctx.progress(n)?;
        Ok(n * 2)
    }

    fn registry() -> ActionRegistry {
        let mut registry = ActionRegistry::default();
        registry
            .add_action("triple", erase_action(async |_: ActionContext, n: u64| Ok::<_, ActionError>(n * 3)))
            .unwrap();
        registry.add_action("double", erase_action(double)).unwrap();
        registry
    }

    fn call(name: &str, input: &str) -> (ActionCall, watch::Receiver<AttemptBeat>) {
        let (beats, seen) = watch::channel(AttemptBeat { at: Instant::now(), progress: None });
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse("o-1").unwrap(),
        };
        let action = ActionKey { execution, seq: Seq(2), action: Name::parse("pay").unwrap() };
        let call = ActionCall {
            name: Name::parse(name).unwrap(),
            key: action.to_string(),
            action,
            attempt: 1,
            token: 1,
            deadline: Instant::now() + Duration::from_secs(1),
            input: RawJson::from_trusted_text(input),
            progress: None,
            pulse: AttemptPulse::new(beats, CancellationToken::new()),
        };
        (call, seen)
    }

    #[test]
    fn action_names_are_sorted() {
        let names: Vec<String> = registry().action_names().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["double", "triple"]);
    }

    #[tokio::test]
    async fn registry_calls_action_by_name() {
        let (call, seen) = call("double", "21");
        let attempt = registry().perform_call(call).await;
        assert_eq!(attempt, AttemptOutcome::Success { result: RawJson::from_trusted_text("42") });
        assert_eq!(seen.borrow().progress, Some(RawJson::from_trusted_text("21")));
    }

    #[tokio::test]
    async fn unknown_action_is_left_to_others() {
        let attempt = registry().perform_call(call("halve", "21").0).await;
        assert!(matches!(attempt, AttemptOutcome::Transient { .. }), "{attempt:?}");
    }

    #[tokio::test]
    async fn invalid_input_never_reaches_action() {
        let (call, seen) = call("double", "\"x\"");
        let attempt = registry().perform_call(call).await;
        assert!(matches!(attempt, AttemptOutcome::Permanent { .. }), "{attempt:?}");
        assert_eq!(seen.borrow().progress, None);
    }
}
