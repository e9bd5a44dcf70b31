//! Performs one run, from its acceptance to its end.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::RunContext;
use super::error::{AfterRunError, RunError};
use super::held_run::{HeldRun, HeldRunStatus};
use crate::client::{Client, ClientError, RunAct, RunStatus};

/// The type-erased function.
pub(super) type RunFunction =
    Arc<dyn Fn(RunContext) -> BoxFuture<'static, Result<Value, RunError>> + Send + Sync>;

pub(super) fn erase_run_function<F, I, O, Fut>(perform: F) -> RunFunction
where
    F: Fn(RunContext, I) -> Fut + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    Fut: Future<Output = Result<O, RunError>> + Send + 'static,
{
    let perform = Arc::new(perform);
    Arc::new(move |run: RunContext| {
        let perform = Arc::clone(&perform);
        async move {
            let input = serde_json::from_value(run.0.of.input.clone());
            let input =
                input.map_err(|error| RunError::fail(format!("the input: {error}")).class("input"))?;
            let output = perform(run, input).await?;
            serde_json::to_value(output)
                .map_err(|error| RunError::fail(format!("the output: {error}")).class("output"))
        }
        .boxed()
    })
}

/// Accepts the run, performs it, and reports the outcome. A refused call means that the seat was reassigned.
pub(super) async fn perform_run(client: &Client, device: &str, held: Arc<HeldRun>, perform: RunFunction) {
    let done = attempt_run(client, device, &held, perform).await;
    if done.is_err() {
        // The run is lost, or the server was unreachable for a long time, in which case it will be lost soon.
        held.update_status(HeldRunStatus { lost: true, paused: false });
    }
}

async fn attempt_run(
    client: &Client,
    device: &str,
    held: &Arc<HeldRun>,
    perform: RunFunction,
) -> Result<(), ClientError> {
    if held.of.status == RunStatus::Assigned {
        client.act_on_run(device, &held.of, &RunAct::Accept).await?;
    }
    if held.of.status != RunStatus::Processing {
        client.act_on_run(device, &held.of, &RunAct::Start).await?;
    }
    let running = perform(RunContext(Arc::clone(held)));
    let outcome =
        AssertUnwindSafe(running).catch_unwind().await.unwrap_or_else(|panic| Err(panic_error(&*panic)));
    if held.current_status().lost {
        return Ok(());
    }
    // Reports the last progress before the outcome, so that it is not lost with it.
    if let Some(progress) = held.take_progress() {
        client.act_on_run(device, &held.of, &RunAct::Progress(progress)).await?;
    }
    client.act_on_run(device, &held.of, &final_act(outcome)).await.map(|_| ())
}

fn final_act(outcome: Result<Value, RunError>) -> RunAct {
    match outcome {
        Ok(output) => RunAct::Complete(output),
        Err(RunError { message, class: _, then: AfterRunError::Release }) => RunAct::Release(message),
        Err(RunError { message, class, then: AfterRunError::Fail }) => {
            RunAct::Fail { message, class, retryable: false }
        }
        Err(RunError { message, class, then: AfterRunError::AskAnother }) => {
            RunAct::Fail { message, class, retryable: true }
        }
    }
}

fn panic_error(panic: &(dyn Any + Send)) -> RunError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    RunError::ask_another(format!("the function panicked: {text}")).class("panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ending_maps_to_act() {
        assert_eq!(final_act(Ok(Value::Null)), RunAct::Complete(Value::Null));
        assert_eq!(final_act(Err(RunError::release("r"))), RunAct::Release("r".to_owned()));
        let failed =
            |retryable| RunAct::Fail { message: "m".to_owned(), class: Some("c".to_owned()), retryable };
        assert_eq!(final_act(Err(RunError::fail("m").class("c"))), failed(false));
        assert_eq!(final_act(Err(RunError::ask_another("m").class("c"))), failed(true));
    }
}
