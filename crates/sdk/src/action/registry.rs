//! The actions of a worker by name, as the engine calls them.

use std::collections::BTreeMap;
use std::fmt;

use millstream_core::action::{ActionError as Told, Attempt, ErrorClass};
use millstream_core::id::Name;
use millstream_worker::{Call, PerformCalls};

use super::context::ActionContext;
use super::erased::ActionFn;

#[derive(Default)]
pub(crate) struct Registry(BTreeMap<Name, ActionFn>);

impl Registry {
    /// Fails when the name is invalid or taken.
    pub(crate) fn add(&mut self, name: &str, action: ActionFn) -> Result<(), String> {
        let parsed = Name::parse(name).map_err(|error| format!("the action name {name:?} {error}"))?;
        match self.0.insert(parsed, action) {
            None => Ok(()),
            Some(_) => Err(format!("there are two actions {name:?}")),
        }
    }
}

#[async_trait::async_trait]
impl PerformCalls for Registry {
    fn names(&self) -> Vec<Name> {
        self.0.keys().cloned().collect()
    }

    async fn perform(&self, call: Call) -> Attempt {
        match self.0.get(&call.name) {
            Some(action) => {
                let (context, input) = ActionContext::of(call);
                action(context, input).await
            }
            None => unknown(&call.name),
        }
    }
}

/// The engine reads our names before it hands an action over: another worker may have this one.
fn unknown(name: &Name) -> Attempt {
    let message = format!("this worker has no action {name:?}");
    Attempt::Transient {
        error: Told { class: ErrorClass::Internal, message, status: None },
        retry_after: None,
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_core::id::{ActionKey, ExecutionId, ExecutionKey, Seq, TenantId};
    use millstream_core::raw::RawJson;
    use millstream_worker::{Beat, Pulse};
    use tokio::sync::watch;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::action::{ActionError, erase};

    async fn double(ctx: ActionContext, n: u64) -> Result<u64, ActionError> {
        ctx.progress(n)?;
        Ok(n * 2)
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        registry.add("triple", erase(async |_: ActionContext, n: u64| Ok::<_, ActionError>(n * 3))).unwrap();
        registry.add("double", erase(double)).unwrap();
        registry
    }

    fn call(name: &str, input: &str) -> (Call, watch::Receiver<Beat>) {
        let (beats, seen) = watch::channel(Beat { at: Instant::now(), progress: None });
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse("o-1").unwrap(),
        };
        let action = ActionKey { execution, seq: Seq(2), action: Name::parse("pay").unwrap() };
        let call = Call {
            name: Name::parse(name).unwrap(),
            key: action.to_string(),
            action,
            attempt: 1,
            token: 1,
            deadline: Instant::now() + Duration::from_secs(1),
            input: RawJson::trusted(input),
            progress: None,
            pulse: Pulse::new(beats, CancellationToken::new()),
        };
        (call, seen)
    }

    #[test]
    fn names_are_told_in_order() {
        let names: Vec<String> = registry().names().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["double", "triple"]);
    }

    #[tokio::test]
    async fn a_call_reaches_the_action_of_its_name_and_progress_reaches_the_engine() {
        let (call, seen) = call("double", "21");
        let attempt = registry().perform(call).await;
        assert_eq!(attempt, Attempt::Success { result: RawJson::trusted("42") });
        assert_eq!(seen.borrow().progress, Some(RawJson::trusted("21")));
    }

    #[tokio::test]
    async fn a_call_that_nobody_here_knows_is_left_to_others() {
        let attempt = registry().perform(call("halve", "21").0).await;
        assert!(matches!(attempt, Attempt::Transient { .. }), "{attempt:?}");
    }

    #[tokio::test]
    async fn input_that_does_not_fit_never_reaches_the_action() {
        let (call, seen) = call("double", "\"x\"");
        let attempt = registry().perform(call).await;
        assert!(matches!(attempt, Attempt::Permanent { .. }), "{attempt:?}");
        assert_eq!(seen.borrow().progress, None);
    }
}
