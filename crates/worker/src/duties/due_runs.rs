//! Due device runs: without an answer, a start or a heartbeat in time, or with an elapsed pause.
//!
//! Every worker looks; a run changed by another worker meanwhile is looked at again, and then nothing is due.

use std::sync::Arc;

use millstream_model::mutation::{self, Mutation};
use millstream_store::run_service::{
    self, DeviceRunCommand, DeviceRunCommandKind, RunOperation, RunOperationReply, RunReply,
};

use super::periodic::DutyError;
use crate::perform::ActionPerformer;

/// Runs read, and written, at once.
const PAGE: usize = 100;

pub(crate) async fn process_due_runs(performer: Arc<ActionPerformer>) -> Result<(), DutyError> {
    if mutation::is_active(Mutation::NoRunMonitor) {
        return Ok(());
    }
    loop {
        let due = performer.env.stores.runs.due_runs(performer.env.now(), PAGE).await?;
        let is_last = due.len() < PAGE;
        let order =
            |key| DeviceRunCommand { key, want: DeviceRunCommandKind::Ask(RunOperation::Due), by: None };
        let orders: Vec<DeviceRunCommand> = due.into_iter().map(order).collect();
        let mut done = 0;
        for (order, answer) in orders.iter().zip(run_service::perform_commands(&*performer, &orders).await) {
            match answer {
                Ok(RunReply::Acted(RunOperationReply::Done { .. })) => done += 1,
                Ok(
                    RunReply::Acted(
                        RunOperationReply::Refused(_)
                        | RunOperationReply::NoSuchRun
                        | RunOperationReply::NoSuchDevice,
                    )
                    | RunReply::Created(_),
                ) => {}
                // An unreadable run does not block the others.
                Err(error) => {
                    tracing::warn!(run = %order.key, error = %error, "could not process a due run");
                }
            }
        }
        if is_last || done == 0 || performer.env.stop.is_cancelled() {
            return Ok(());
        }
    }
}
