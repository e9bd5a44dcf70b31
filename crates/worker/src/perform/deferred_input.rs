//! The input of an action that had to wait for the results of others: rendered by the attempt, once, and
//! recorded under its lease.

use std::time::Duration;

use millstream_expr::StopRule;
use millstream_model::attempt::ActionFailure;
use millstream_model::error_class::ErrorClass;
use millstream_model::raw::RawJson;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::action_store::LeasedAction;
use millstream_workflow::machine::{self, ActionInput, RenderError};
use millstream_workflow::program::ExecutionProgram;

use super::attempt_contract::internal_error;
use super::performer::ActionPerformer;

/// The input, rendered now if it had to wait for results. `None` when the lease is lost.
pub(super) async fn render_input(
    performer: &ActionPerformer,
    program: &ExecutionProgram,
    action: &LeasedAction,
) -> Option<Result<ActionInput, ActionFailure>> {
    let raw = match (&action.input, &action.scope, program.machine()) {
        (Some(input), _, _) => input.clone(),
        (None, Some(scope), Some(_)) => {
            match render_cheap_or_pooled(performer, program, action, scope).await? {
                Ok(input) => {
                    record_input(performer, action, &input).await?;
                    input
                }
                Err(message) => {
                    return Some(Err(ActionFailure { class: ErrorClass::Input, message, status: None }));
                }
            }
        }
        (None, None, _) | (None, Some(_), None) => {
            return Some(Err(internal_error("the action has neither input nor scope".to_owned())));
        }
    };
    Some(raw.decode().map_err(|error| internal_error(format!("the recorded input cannot be read: {error}"))))
}

/// Renders an input: in place if it is cheap, else on the pool. `None` when the pool's time limit ended it:
/// the attempt is dropped like one whose worker died, and counted when the action is leased again.
async fn render_cheap_or_pooled(
    performer: &ActionPerformer,
    program: &ExecutionProgram,
    action: &LeasedAction,
    scope: &RawJson,
) -> Option<Result<RawJson, String>> {
    let render = |program: &ExecutionProgram, action: &LeasedAction, scope: &RawJson, stop: StopRule<'_>| {
        let Some(machine) = program.machine() else { return Err(RenderError::Stopped) };
        machine::render_deferred_input(
            machine,
            &action.lease.key.action,
            scope,
            &action.results,
            action.ready_at,
            stop,
        )
    };
    let rendered = match render(program, action, scope, EvaluationPool::inline()) {
        Err(RenderError::Stopped) => {
            let (program, action, scope) = (program.clone(), action.clone(), scope.clone());
            performer.evaluations.run(move |stop| render(&program, &action, &scope, stop)).await.ok()?
        }
        rendered @ (Ok(_) | Err(RenderError::Failed(_))) => rendered,
    };
    match rendered {
        Ok(input) => Some(Ok(input)),
        Err(RenderError::Failed(message)) => Some(Err(message)),
        Err(RenderError::Stopped) => None,
    }
}

/// Records a rendered input; retries for as long as the lease lasts.
async fn record_input(performer: &ActionPerformer, action: &LeasedAction, input: &RawJson) -> Option<()> {
    loop {
        let inputs = [(action.lease.clone(), input.clone())];
        match performer.env.stores.actions.record_inputs(&inputs).await {
            Ok(held) => return held.first().copied().unwrap_or(false).then_some(()),
            Err(error) => {
                performer.env.store_outage.record_failure(&error);
                tokio::time::sleep(performer.env.jittered(Duration::from_millis(250))).await;
            }
        }
    }
}
