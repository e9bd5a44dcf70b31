//! `WatchAssignments`: the assignments of a device, as messages.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_core::claim::due;
use millstream_core::id::DeviceKey;
use millstream_rpc::length::{length_out, time_out};
use millstream_rpc::proto::{Assignment as AssignmentOut, RunProgress, WatchAssignmentsResponse};
use tonic::Status;

use super::status::status;
use crate::devices::assignments::Assignment;
use crate::devices::watch::{Listed, watch};
use crate::door::Door;

pub(super) type Lists = BoxStream<'static, Result<WatchAssignmentsResponse, Status>>;

pub(super) async fn lists(door: Arc<Door>, device: DeviceKey, seen: Option<String>) -> Result<Lists, Status> {
    let watch = watch(door, device, seen).await.map_err(status)?;
    let lists = futures::stream::unfold(watch, |mut watch| async move {
        let list = watch.next().await?.map(shown).map_err(status);
        Some((list, watch))
    });
    Ok(lists.boxed())
}

fn shown(Listed { all, mark }: Listed) -> WatchAssignmentsResponse {
    WatchAssignmentsResponse { assignments: all.into_iter().filter_map(one).collect(), mark }
}

fn one(Assignment { seat: of, run }: Assignment) -> Option<AssignmentOut> {
    let seat = run.seat(of.seat)?;
    let due = due(&run, of.seat);
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
