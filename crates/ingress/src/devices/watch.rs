//! Watch stream of a device's assignments: the whole list, and again whenever it changes.
//!
//! Missed lists need no repair: the next list is complete. A client that reconnects with the version tag of
//! its last list receives nothing until the list changes.

use std::sync::Arc;

use millstream_model::id::DeviceKey;

use super::assignments::{self, DeviceAssignment, LOOK_AGAIN};
use super::heartbeat;
use super::wakeups::DeviceSubscription;
use crate::http::problem::{ApiProblem, ProblemKind};
use crate::quotas::HeldPlace;
use crate::state::IngressState;

/// A device's assignments and their version tag.
#[derive(Debug)]
pub(crate) struct AssignmentList {
    pub(crate) all: Vec<DeviceAssignment>,
    pub(crate) version: String,
}

pub(crate) struct AssignmentWatch {
    door: Arc<IngressState>,
    device: DeviceKey,
    ear: DeviceSubscription,
    /// Version tag of the list that the device has.
    seen: Option<String>,
    stage: AssignmentWatchStage,
    _permit: HeldPlace,
}

#[derive(Debug, Clone, Copy)]
enum AssignmentWatchStage {
    Reading,
    /// The list was sent: wait for a change first.
    Listening,
    Done,
}

pub(crate) async fn watch_assignments(
    door: Arc<IngressState>,
    device: DeviceKey,
    seen: Option<String>,
) -> Result<AssignmentWatch, ApiProblem> {
    let permit = door.stream_place(&device.tenant)?;
    heartbeat::find_device(&door, &device).await?;
    // Subscribe before the first read, so that no write falls between the two.
    let ear = door.fleet.ears.subscribe_to(device.clone());
    Ok(AssignmentWatch { door, device, ear, seen, stage: AssignmentWatchStage::Reading, _permit: permit })
}

impl AssignmentWatch {
    /// The next list. The stream ends with an error that states the reason and whether to reconnect.
    pub(crate) async fn next_list(&mut self) -> Option<Result<AssignmentList, ApiProblem>> {
        loop {
            match self.stage {
                AssignmentWatchStage::Done => return None,
                AssignmentWatchStage::Reading | AssignmentWatchStage::Listening
                    if self.door.draining.is_cancelled() =>
                {
                    return Some(Err(self.break_stream(draining_problem())));
                }
                AssignmentWatchStage::Listening => {
                    let draining = self.door.draining.clone();
                    tokio::select! {
                        () = self.ear.wait_for_news(LOOK_AGAIN) => {}
                        () = draining.cancelled() => {}
                    }
                    self.stage = AssignmentWatchStage::Reading;
                }
                AssignmentWatchStage::Reading => match self.read_list().await {
                    Ok(Some(listed)) => return Some(Ok(listed)),
                    Ok(None) => {}
                    Err(problem) => return Some(Err(self.break_stream(problem))),
                },
            }
        }
    }

    async fn read_list(&mut self) -> Result<Option<AssignmentList>, ApiProblem> {
        let all = assignments::list_assignments(&self.door, &self.device).await?;
        if all.is_empty() {
            // A device that was removed gets no more lists.
            heartbeat::find_device(&self.door, &self.device).await?;
        }
        self.stage = AssignmentWatchStage::Listening;
        let version = assignments::version_tag(&all);
        if self.seen.as_ref() == Some(&version) {
            return Ok(None);
        }
        self.seen = Some(version.clone());
        Ok(Some(AssignmentList { all, version }))
    }

    fn break_stream(&mut self, problem: ApiProblem) -> ApiProblem {
        self.stage = AssignmentWatchStage::Done;
        problem
    }
}

fn draining_problem() -> ApiProblem {
    ApiProblem::new(ProblemKind::Draining, "this process is shutting down; reconnect to another one")
}
