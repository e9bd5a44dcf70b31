//! Performs an action: the dispatch over the kinds of actions. A kind has a file of its own unless it needs a
//! few lines only.

use std::sync::Arc;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::ActionKey;
use millstream_model::raw::RawJson;
use millstream_model::secrets::{self, MissingSecret, SecretValues};
use millstream_model::time::Timestamp;
use millstream_store::action_store::LeasedAction;
use millstream_workflow::definition::ActionPolicy;
use millstream_workflow::machine::{ActionInput, CallInput, HttpInput, WaitInput};
use tokio::time::Instant;

use super::attempt_contract::{AttemptCredentials, PerformOutcome, internal_error};
use super::call::ActionCall;
use super::http_request::{HttpRequest, SealedBody, SealedParts};
use super::performer::ActionPerformer;
use super::{device, emit, node, parent_child, start, task_for, webhook};
use crate::action_log::write_log_line;
use crate::leasing::leases::HeldLease;

#[expect(clippy::too_many_arguments, reason = "everything that an attempt has")]
pub(crate) async fn run_action(
    performer: &ActionPerformer,
    policy: &ActionPolicy,
    action: &LeasedAction,
    held: &HeldLease,
    input: ActionInput,
    credentials: &AttemptCredentials,
    filled: &Arc<SecretValues>,
    deadline: Instant,
) -> PerformOutcome {
    PerformOutcome::Attempt(match input {
        ActionInput::Http(input) => match fill_http_request(&input, filled, performer.env.now()) {
            Ok(request) => performer.http.send_request(&request, credentials).await,
            Err(missing) => missing_secret(&missing),
        },
        ActionInput::Webhook(input) => {
            match webhook::webhook_request(&input, filled, &credentials.idempotency_key, performer.env.now())
            {
                Ok(request) => performer.http.send_request(&request, credentials).await,
                Err(missing) => missing_secret(&missing),
            }
        }
        ActionInput::Log(text) => perform_log(&action.lease.key, &text),
        // The whole way of lease, attempt and settlement, for tests and benches.
        ActionInput::Noop(value) => AttemptOutcome::Success { result: value },
        ActionInput::Call(input) => {
            run_call(performer, action, held, &input, credentials, filled, deadline).await
        }
        ActionInput::Emit(input) => emit::perform_emit(performer, action, input, credentials).await,
        ActionInput::Start(input) => {
            return start::perform_start(performer, action, input, credentials, &policy.timeouts).await;
        }
        ActionInput::Wait(input) => return perform_wait(input, performer.env.now()),
        ActionInput::Return(input) => {
            return parent_child::return_to_parent(performer, action, &input).await;
        }
        ActionInput::CloseChildren => parent_child::close_children(performer, action).await,
        ActionInput::Node(input) => {
            return node::perform_node(performer, action, held, input, credentials).await;
        }
        ActionInput::Device(input) => {
            return device::perform_device(performer, action, &input, &policy.timeouts).await;
        }
        ActionInput::TaskFor(input) => {
            return task_for::perform_task_for(performer, action, &input, &policy.timeouts).await;
        }
        // Only external workers perform these.
        ActionInput::Task(_) => return PerformOutcome::Lost,
    })
}

/// The schedule of the action is missed: withdraws what it began.
pub(crate) async fn withdraw_begun(performer: &ActionPerformer, action: &LeasedAction) {
    start::give_up_child(performer, action).await;
    device::give_up_run(performer, action).await;
    task_for::give_up_item(performer, action).await;
}

/// `log`: one line in the worker's own log, with the key of the action beside it.
fn perform_log(key: &ActionKey, text: &str) -> AttemptOutcome {
    write_log_line(key, text);
    AttemptOutcome::Success { result: RawJson::null() }
}

/// `wait`: a delay until a given time.
fn perform_wait(input: WaitInput, now: Timestamp) -> PerformOutcome {
    if now < input.until {
        return PerformOutcome::postponed(input.until);
    }
    PerformOutcome::Attempt(AttemptOutcome::Success { result: RawJson::from_value(&input) })
}

async fn run_call(
    performer: &ActionPerformer,
    action: &LeasedAction,
    held: &HeldLease,
    input: &CallInput,
    credentials: &AttemptCredentials,
    filled: &Arc<SecretValues>,
    deadline: Instant,
) -> AttemptOutcome {
    let Some(calls) = &performer.calls else {
        let message = format!("this worker has no function {:?}", input.function.as_str());
        return AttemptOutcome::Transient { error: internal_error(message), retry_after: None };
    };
    let full = match secrets::fill_holes(&input.input, &input.secrets, filled) {
        Ok(full) => full,
        Err(missing) => return missing_secret(&missing),
    };
    let call = ActionCall {
        name: input.function.clone(),
        key: credentials.idempotency_key.clone(),
        action: action.lease.key.clone(),
        attempt: action.attempt,
        token: action.lease.epoch.0,
        deadline,
        input: full,
        progress: action.progress.clone(),
        pulse: held.attempt_pulse().redacting(Arc::clone(filled)),
    };
    calls.perform_call(call).await
}

fn fill_http_request(
    input: &HttpInput,
    filled: &SecretValues,
    now: Timestamp,
) -> Result<HttpRequest, MissingSecret> {
    let headers = input.headers.iter().map(|(name, phrase)| Ok((name.clone(), phrase.fill_secrets(filled)?)));
    Ok(HttpRequest {
        method: input.method,
        url: input.url.fill_secrets(filled)?,
        headers: headers.collect::<Result<_, _>>()?,
        body: match &input.body {
            Some(body) => Some(secrets::fill_holes(body, &input.body_secrets, filled)?),
            None => None,
        },
        expect: input.expect.clone(),
        max_response: input.max_response,
        sealed: SealedParts {
            headers: input
                .headers
                .iter()
                .filter(|(_, phrase)| phrase.secret_names().next().is_some())
                .map(|(name, _)| name.clone())
                .collect(),
            body: SealedBody::of_holes(&input.body_secrets),
        },
        at: now,
    })
}

fn missing_secret(missing: &MissingSecret) -> AttemptOutcome {
    let error = ActionFailure { class: ErrorClass::Secret, message: missing.to_string(), status: None };
    AttemptOutcome::Transient { error, retry_after: None }
}
