//! Secrets by name, for one attempt.
//!
//! Read by every attempt, so that a changed secret is used from the next attempt on. The secrets are removed
//! from the result, and from the message of a panic.

use std::cell::RefCell;
use std::sync::{Arc, Once};

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::id::{Name, TenantId};
use millstream_core::machine::ActionInput;
use millstream_core::sealed::Filled;

/// Source of secrets. A tenant can only read its own.
#[async_trait::async_trait]
pub trait Secrets: Send + Sync + std::fmt::Debug {
    async fn get(&self, tenant: &TenantId, name: &Name) -> Option<String>;
}

/// The secrets that an input refers to.
pub(crate) async fn fill(
    secrets: Option<&dyn Secrets>,
    tenant: &TenantId,
    input: &ActionInput,
) -> Result<Filled, ActionError> {
    let mut filled = Filled::default();
    for name in wanted(input) {
        let value = match secrets {
            Some(secrets) => secrets.get(tenant, name).await,
            None => None,
        };
        let Some(value) = value else {
            let message = format!(
                "no such secret: {:?}; provide it to the worker as a file or in its environment",
                name.as_str()
            );
            return Err(ActionError { class: ErrorClass::Secret, message, status: None });
        };
        filled.insert(name.clone(), value);
    }
    Ok(filled)
}

fn wanted(input: &ActionInput) -> Vec<&Name> {
    match input {
        ActionInput::Http(http) => {
            let texts = http.headers.values().chain([&http.url]).flat_map(|phrase| phrase.secrets());
            texts.chain(http.body_secrets.values()).collect()
        }
        ActionInput::Call(call) => call.secrets.values().collect(),
        ActionInput::Webhook(webhook) => {
            webhook.url.secrets().chain(webhook.data_secrets.values()).chain([&webhook.secret]).collect()
        }
        ActionInput::Log(_)
        | ActionInput::Task(_)
        | ActionInput::Device(_)
        | ActionInput::TaskFor(_)
        | ActionInput::Emit(_)
        | ActionInput::Start(_)
        | ActionInput::Wait(_)
        | ActionInput::Noop(_)
        | ActionInput::Node(_)
        | ActionInput::Return(_)
        | ActionInput::CloseChildren => Vec::new(),
    }
}

/// Removes the secrets from an attempt's outcome.
pub(crate) fn redact(filled: &Filled, attempt: Attempt) -> Attempt {
    if filled.is_empty() {
        return attempt;
    }
    let clean = |error: ActionError| ActionError { message: filled.redact(&error.message), ..error };
    match attempt {
        Attempt::Success { result } => Attempt::Success { result: filled.redact_json(result) },
        Attempt::Transient { error, retry_after } => Attempt::Transient { error: clean(error), retry_after },
        Attempt::Permanent { error } => Attempt::Permanent { error: clean(error) },
        Attempt::Pause { error } => Attempt::Pause { error: clean(error) },
    }
}

thread_local! {
    /// Secrets of the attempt polled on this thread.
    static IN_HAND: RefCell<Option<Arc<Filled>>> = const { RefCell::new(None) };
}

/// Runs an attempt; the report of a panic omits its secrets.
pub(crate) async fn guarding<T>(filled: Arc<Filled>, attempt: impl Future<Output = T>) -> T {
    if filled.is_empty() {
        return attempt.await;
    }
    quiet_panics();
    let mut attempt = std::pin::pin!(attempt);
    std::future::poll_fn(|context| {
        let before = IN_HAND.with(|held| held.replace(Some(Arc::clone(&filled))));
        let restored = Restore(before);
        let polled = attempt.as_mut().poll(context);
        drop(restored);
        polled
    })
    .await
}

/// Restores on drop, so also when the attempt unwinds.
struct Restore(Option<Arc<Filled>>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        IN_HAND.with(|held| *held.borrow_mut() = before);
    }
}

/// The default panic hook prints the message unchanged. While an attempt holds secrets, ours prints a
/// redacted one.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let held = IN_HAND.with(|held| held.try_borrow().ok().and_then(|held| held.clone()));
            match held {
                None => default(info),
                Some(filled) => {
                    let message = filled.redact(&info.to_string());
                    tracing::error!(error = %message, "panic while performing an action");
                }
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn secrets_are_in_hand_only_while_their_attempt_runs() {
        let mut filled = Filled::default();
        filled.insert(Name::parse("k").unwrap(), "hunter2".to_owned());
        let in_hand = || IN_HAND.with(|held| held.borrow().is_some());
        let seen = guarding(Arc::new(filled), async {
            tokio::task::yield_now().await;
            in_hand()
        });
        assert!(seen.await);
        assert!(!in_hand());
    }
}
