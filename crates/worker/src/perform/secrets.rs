//! Secrets by name, for one attempt.
//!
//! Read by every attempt, so that a changed secret is used from the next attempt on. The secrets are removed
//! from the result, and from the message of a panic.

use std::cell::RefCell;
use std::sync::{Arc, Once};

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{Name, TenantId};
use millstream_model::secrets::SecretValues;
use millstream_workflow::machine::ActionInput;

/// Source of secrets. A tenant can only read its own.
#[async_trait::async_trait]
pub trait SecretSource: Send + Sync + std::fmt::Debug {
    async fn get(&self, tenant: &TenantId, name: &Name) -> Option<String>;
}

/// The secrets that an input refers to.
pub(crate) async fn fill_secrets(
    secrets: Option<&dyn SecretSource>,
    tenant: &TenantId,
    input: &ActionInput,
) -> Result<SecretValues, ActionFailure> {
    let mut filled = SecretValues::default();
    for name in secret_names(input) {
        let value = match secrets {
            Some(secrets) => secrets.get(tenant, name).await,
            None => None,
        };
        let Some(value) = value else {
            let message = format!(
                "no such secret: {:?}; provide it to the worker as a file or in its environment",
                name.as_str()
            );
            return Err(ActionFailure { class: ErrorClass::Secret, message, status: None });
        };
        filled.insert(name.clone(), value);
    }
    Ok(filled)
}

fn secret_names(input: &ActionInput) -> Vec<&Name> {
    match input {
        ActionInput::Http(http) => {
            let texts = http.headers.values().chain([&http.url]).flat_map(|phrase| phrase.secret_names());
            texts.chain(http.body_secrets.values()).collect()
        }
        ActionInput::Call(call) => call.secrets.values().collect(),
        ActionInput::Webhook(webhook) => {
            webhook.url.secret_names().chain(webhook.data_secrets.values()).chain([&webhook.secret]).collect()
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
pub(crate) fn redact_attempt(filled: &SecretValues, attempt: AttemptOutcome) -> AttemptOutcome {
    if filled.is_empty() {
        return attempt;
    }
    let clean = |error: ActionFailure| ActionFailure { message: filled.redact_text(&error.message), ..error };
    match attempt {
        AttemptOutcome::Success { result } => AttemptOutcome::Success { result: filled.redact_json(result) },
        AttemptOutcome::Transient { error, retry_after } => {
            AttemptOutcome::Transient { error: clean(error), retry_after }
        }
        AttemptOutcome::Permanent { error } => AttemptOutcome::Permanent { error: clean(error) },
        AttemptOutcome::Pause { error } => AttemptOutcome::Pause { error: clean(error) },
    }
}

thread_local! {
    /// Secrets of the attempt polled on this thread.
    static IN_HAND: RefCell<Option<Arc<SecretValues>>> = const { RefCell::new(None) };
}

/// Runs an attempt; the report of a panic omits its secrets.
pub(crate) async fn run_guarding_secrets<T>(
    filled: Arc<SecretValues>,
    attempt: impl Future<Output = T>,
) -> T {
    if filled.is_empty() {
        return attempt.await;
    }
    install_panic_hook();
    let mut attempt = std::pin::pin!(attempt);
    std::future::poll_fn(|context| {
        let before = IN_HAND.with(|held| held.replace(Some(Arc::clone(&filled))));
        let restored = RestoreSecrets(before);
        let polled = attempt.as_mut().poll(context);
        drop(restored);
        polled
    })
    .await
}

/// Restores on drop, so also when the attempt unwinds.
struct RestoreSecrets(Option<Arc<SecretValues>>);

impl Drop for RestoreSecrets {
    fn drop(&mut self) {
        let before = self.0.take();
        IN_HAND.with(|held| *held.borrow_mut() = before);
    }
}

/// The default panic hook prints the message unchanged. While an attempt holds secrets, ours prints a
/// redacted one.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let held = IN_HAND.with(|held| held.try_borrow().ok().and_then(|held| held.clone()));
            match held {
                None => default(info),
                Some(filled) => {
                    let message = filled.redact_text(&info.to_string());
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
    async fn secrets_are_held_only_during_attempt() {
        let mut filled = SecretValues::default();
        filled.insert(Name::parse("k").unwrap(), "hunter2".to_owned());
        let in_hand = || IN_HAND.with(|held| held.borrow().is_some());
        let seen = run_guarding_secrets(Arc::new(filled), async {
            tokio::task::yield_now().await;
            in_hand()
        });
        assert!(seen.await);
        assert!(!in_hand());
    }
}
