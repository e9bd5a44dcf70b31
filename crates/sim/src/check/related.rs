//! C9: one child per action that starts one, whose end is the action's outcome; none is left behind.

use std::collections::BTreeMap;

use millstream_model::status::{ActionStatus, ExecutionStatus};

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimExecution, SimHistory, SimWork};

pub(super) fn check_children(history: &SimHistory) -> Vec<SimViolation> {
    let mut children: BTreeMap<&str, Vec<&SimExecution>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for child in &history.executions {
        let Some(parent) = &child.parent else { continue };
        children.entry(parent).or_default().push(child);
        if !is_over(child) {
            wrong.push(SimViolation::new(
                SimCheck::C9,
                &child.id,
                format!("{parent} began it, and it never ends"),
            ));
        }
    }
    for execution in &history.executions {
        for action in execution.actions.iter().filter(|action| action.work == SimWork::Child) {
            let born = children.get(action.key.as_str()).map_or(&[][..], Vec::as_slice);
            let completed = born.iter().filter(|child| child.status == ExecutionStatus::Completed).count();
            let what = match action.status {
                ActionStatus::Succeeded if completed != 1 => Some("succeeded"),
                ActionStatus::Failed if completed > 0 && !is_over(execution) => Some("failed"),
                ActionStatus::Succeeded
                | ActionStatus::Failed
                | ActionStatus::Waiting
                | ActionStatus::Ready
                | ActionStatus::Leased
                | ActionStatus::Awaiting
                | ActionStatus::Standby
                | ActionStatus::Skipped
                | ActionStatus::Cancelled => None,
            };
            if let Some(what) = what {
                let ends: Vec<_> =
                    born.iter().map(|child| format!("{} {}", child.id, child.status)).collect();
                let what = format!("{} {what} and its children are {ends:?}", action.key);
                wrong.push(SimViolation::new(SimCheck::C9, &execution.id, what));
            }
        }
    }
    wrong
}

fn is_over(execution: &SimExecution) -> bool {
    match execution.status {
        ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Cancelled => true,
        ExecutionStatus::Active | ExecutionStatus::Paused => false,
    }
}
