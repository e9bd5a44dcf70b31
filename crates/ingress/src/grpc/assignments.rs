//! `WatchAssignments`: the assignments of a device, as messages.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_devices::claim::next_due;
use millstream_model::id::DeviceKey;
use millstream_rpc::length::{length_out, time_out};
use millstream_rpc::proto::{Assignment as AssignmentOut, RunProgress, WatchAssignmentsResponse};
use tonic::Status;

use super::status::status_of_refusal;
use crate::devices::assignments::DeviceAssignment;
use crate::devices::watch::{AssignmentList, watch_assignments};
use crate::state::IngressState;

pub(super) type AssignmentListStream = BoxStream<'static, Result<WatchAssignmentsResponse, Status>>;

pub(super) async fn watch_lists(
    door: Arc<IngressState>,
    device: DeviceKey,
    seen: Option<String>,
) -> Result<AssignmentListStream, Status> {
    let watch = watch_assignments(door.devices.clone(), device, seen).await.map_err(status_of_refusal)?;
    let lists = futures::stream::unfold(watch, |mut watch| async move {
        let list = watch.next_list().await?.map(encode_list).map_err(status_of_refusal);
        Some((list, watch))
    });
    Ok(lists.boxed())
}

fn encode_list(AssignmentList { all, version }: AssignmentList) -> WatchAssignmentsResponse {
    WatchAssignmentsResponse { assignments: all.into_iter().filter_map(encode_assignment).collect(), version }
}

fn encode_assignment(DeviceAssignment { seat: of, run }: DeviceAssignment) -> Option<AssignmentOut> {
    let seat = run.seat(of.seat)?;
    let due = next_due(&run, of.seat);
    Some(AssignmentOut {
        run_id: of.run.run.to_string(),
        seat: of.seat.into(),
        token: of.token.0,
        status: seat.status().to_string(),
        kind: run.kind.to_string(),
        priority: run.priority,
        paused: run.is_paused(),
        assigned_at: Some(time_out(of.assigned_at)),
        due_at: due.map(|(at, _)| time_out(at)),
        due_for: due.map(|(_, what)| what.to_string()).unwrap_or_default(),
        heartbeat: Some(length_out(run.settings.heartbeat)),
        input_json: run.input.as_str().to_owned(),
        progress: seat.progress.as_ref().map(|progress| RunProgress {
            step: progress.step,
            total: progress.total,
            note: progress.note.clone().unwrap_or_default(),
        }),
    })
}
