//! Action planning: prepares the actions of a transition for the store.

use millstream_expr::{EvalError, ExprScope};
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;

use super::compile::Machine;
use super::input::{ActionInput, ReturnInput};
use crate::definition::FailureRule;
use crate::log::{ActionPlan, ExecutionState, PlannedAction};

/// The actions of a `do` list, followed by their undo actions.
pub(super) fn plan_actions(
    machine: &Machine,
    actions: &[Name],
    scope: &ExprScope<'_>,
) -> Result<Vec<PlannedAction>, EvalError> {
    let mut planned = Vec::with_capacity(actions.len());
    for (ordinal, name) in actions.iter().enumerate() {
        let (Some(spec), Some(compiled)) = (machine.action_spec(name), machine.compiled_action(name)) else {
            continue;
        };
        let plan = if spec.needs.is_empty() {
            match compiled.render_input(scope, scope.now) {
                // The budget is shared by the step, so its exhaustion rejects the whole event.
                Err(error) if scope.budget.end().is_some() => return Err(error),
                // A log line without `on_success` has no outcome to wait for.
                Ok(input @ ActionInput::Log(_)) if spec.policy.on_success.is_none() => {
                    ActionPlan::Inline { input: RawJson::from_value(&input), result: RawJson::null() }
                }
                Ok(input) => ActionPlan::Ready { input: RawJson::from_value(&input) },
                // Compensation cannot be planned in this commit: the action fails when it becomes ready.
                Err(_) if matches!(spec.policy.failure, FailureRule::Compensate(_)) => {
                    ActionPlan::Waiting { scope: compiled.captures.capture_scope(scope)? }
                }
                Err(error) => ActionPlan::Broken {
                    error: error.to_string(),
                    scope: compiled.captures.capture_scope(scope)?,
                },
            }
        } else {
            ActionPlan::Waiting { scope: compiled.captures.capture_scope(scope)? }
        };
        planned.push(PlannedAction {
            name: name.clone(),
            ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
            needs: spec.needs.clone(),
            plan,
        });
    }
    for name in actions {
        let Some(undo) = machine.action_spec(name).and_then(|spec| spec.undo.as_ref()) else { continue };
        let Some(compiled) = machine.compiled_action(undo) else { continue };
        planned.push(PlannedAction {
            name: undo.clone(),
            ordinal: i32::try_from(planned.len()).unwrap_or(i32::MAX),
            needs: vec![name.clone()],
            plan: ActionPlan::Standby { scope: compiled.captures.capture_scope(scope)? },
        });
    }
    Ok(planned)
}

/// Adds the internal actions at the end of an execution: notify the parent, close the children.
/// `may_have_children` comes from the definition; it is true if the definition cannot be compiled.
pub(crate) fn plan_end_actions(
    after: &ExecutionState,
    planned: &mut Vec<PlannedAction>,
    may_have_children: bool,
) {
    let mut push = |name: Name, input: &ActionInput| {
        let ordinal = i32::try_from(planned.len()).unwrap_or(i32::MAX);
        let plan = ActionPlan::Ready { input: RawJson::from_value(input) };
        planned.push(PlannedAction { name, ordinal, needs: Vec::new(), plan });
    };
    match after.phase {
        ExecutionPhase::Active => return,
        ExecutionPhase::Completed | ExecutionPhase::Failed | ExecutionPhase::Cancelled => {}
    }
    if let Some(parent) = &after.parent {
        let input = ReturnInput {
            parent: parent.execution.clone(),
            seq: parent.seq,
            action: parent.action.clone(),
            phase: after.phase,
            state: after.state.clone(),
            reason: after.reason.clone(),
            context: RawJson::from_value(&after.context),
        };
        push(Name::return_to_parent(), &ActionInput::Return(input));
    }
    if may_have_children {
        push(Name::close_children(), &ActionInput::CloseChildren);
    }
}
