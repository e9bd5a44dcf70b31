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
    /// Fails when the name is no name, or is taken.
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

/// The engine asks for our names before it hands anything over: another worker may know this one.
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
