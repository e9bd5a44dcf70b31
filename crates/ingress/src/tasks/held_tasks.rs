//! Finds the task that a worker reports about, and checks that its token is current.

use millstream_model::id::{ActionKey, Epoch, WorkerId};
use millstream_model::status::ActionStatus;
use millstream_store::views::ActionRecord;

use super::TaskDeps;
use super::handed_out_tasks::HeldTask;
use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Parses the task key of a path; a task of another tenant is answered with 404.
pub(crate) fn parse_task_key(caller: &TenantCaller, text: &str) -> Result<(ActionKey, i32), RequestRefusal> {
    ActionKey::parse_within(&caller.tenant, text).ok_or_else(|| RequestRefusal::not_found("task", text))
}

pub(crate) async fn find_task(deps: &TaskDeps, key: &ActionKey) -> Result<ActionRecord, RequestRefusal> {
    deps.reports.find_task(key.clone()).await?.ok_or_else(|| RequestRefusal::not_found("task", key))
}

/// The task, if the token is that of its lease, or was when this process leased it out; the write makes the
/// final check.
pub(crate) async fn find_held_task(
    deps: &TaskDeps,
    key: &ActionKey,
    revision: i32,
    token: Epoch,
) -> Result<HeldTask, RequestRefusal> {
    if let Some(held) = deps.handed.held_under_token(key, revision, token) {
        return Ok(held);
    }
    let view = find_task(deps, key).await?;
    if view.revision != revision || view.epoch != token || view.status != ActionStatus::Leased {
        return Err(stale_token_refusal(&view, token));
    }
    if !view.queue.is_external() {
        let detail = format!("{key} is no task: only actions of the kind `task` are leased over HTTP");
        return Err(RequestRefusal::new(RefusalKind::Conflict, detail));
    }
    Ok(view.into())
}

pub(crate) async fn lease_lost(deps: &TaskDeps, key: &ActionKey, token: Epoch) -> RequestRefusal {
    deps.handed.forget_task(key);
    match find_task(deps, key).await {
        Ok(view) => stale_token_refusal(&view, token),
        Err(refusal) => refusal,
    }
}

/// The conflict that explains a stale token.
fn stale_token_refusal(view: &ActionRecord, token: Epoch) -> RequestRefusal {
    let holder = view.worker_id.as_ref().map_or("another worker", WorkerId::as_str);
    let detail = match view.status {
        ActionStatus::Leased if view.epoch == token => {
            format!("the task's input was edited, its key is now {}", view.key.with_revision(view.revision))
        }
        ActionStatus::Leased => {
            format!(
                "the lease was lost: {holder} holds the task with token {}, your token is {token}",
                view.epoch
            )
        }
        ActionStatus::Succeeded | ActionStatus::Failed | ActionStatus::Skipped | ActionStatus::Cancelled => {
            format!("the task is already {}", view.status)
        }
        ActionStatus::Ready | ActionStatus::Waiting | ActionStatus::Awaiting | ActionStatus::Standby => {
            format!("the task is not leased: it is {}", view.status)
        }
    };
    RequestRefusal::new(RefusalKind::Conflict, detail)
}
