//! Watch stream of a device's assignments: the whole list, and again whenever it changes.
//!
//! Missed lists need no repair: the next list is complete. A client that reconnects with the version tag of
//! its last list receives nothing until the list changes.

use std::sync::Arc;

use millstream_model::id::DeviceKey;

use super::DeviceDeps;
use super::assignments::{self, DeviceAssignment, LOOK_AGAIN};
use super::heartbeat;
use crate::admission::HeldPlace;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::waiters::DeviceSubscription;

/// A device's assignments and their version tag.
#[derive(Debug)]
pub(crate) struct AssignmentList {
    pub(crate) all: Vec<DeviceAssignment>,
    pub(crate) version: String,
}

pub(crate) struct AssignmentWatch {
    deps: Arc<DeviceDeps>,
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
    deps: Arc<DeviceDeps>,
    device: DeviceKey,
    seen: Option<String>,
) -> Result<AssignmentWatch, RequestRefusal> {
    let permit = deps.admission.stream_place(&device.tenant)?;
    heartbeat::find_device(&deps, &device).await?;
    // Subscribe before the first read, so that no write falls between the two.
    let ear = deps.fleet.ears.subscribe_to(device.clone());
    Ok(AssignmentWatch { deps, device, ear, seen, stage: AssignmentWatchStage::Reading, _permit: permit })
}

impl AssignmentWatch {
    /// The next list. The stream ends with an error that states the reason and whether to reconnect.
    pub(crate) async fn next_list(&mut self) -> Option<Result<AssignmentList, RequestRefusal>> {
        loop {
            match self.stage {
                AssignmentWatchStage::Done => return None,
                AssignmentWatchStage::Reading | AssignmentWatchStage::Listening
                    if self.deps.draining.is_cancelled() =>
                {
                    return Some(Err(self.break_stream(draining_refusal())));
                }
                AssignmentWatchStage::Listening => {
                    let draining = self.deps.draining.clone();
                    tokio::select! {
                        () = self.ear.wait_for_news(LOOK_AGAIN) => {}
                        () = draining.cancelled() => {}
                    }
                    self.stage = AssignmentWatchStage::Reading;
                }
                AssignmentWatchStage::Reading => match self.read_list().await {
                    Ok(Some(listed)) => return Some(Ok(listed)),
                    Ok(None) => {}
                    Err(refusal) => return Some(Err(self.break_stream(refusal))),
                },
            }
        }
    }

    async fn read_list(&mut self) -> Result<Option<AssignmentList>, RequestRefusal> {
        let all = assignments::list_assignments(&self.deps, &self.device).await?;
        if all.is_empty() {
            // A device that was removed gets no more lists.
            heartbeat::find_device(&self.deps, &self.device).await?;
        }
        self.stage = AssignmentWatchStage::Listening;
        let version = assignments::version_tag(&all);
        if self.seen.as_ref() == Some(&version) {
            return Ok(None);
        }
        self.seen = Some(version.clone());
        Ok(Some(AssignmentList { all, version }))
    }

    fn break_stream(&mut self, refusal: RequestRefusal) -> RequestRefusal {
        self.stage = AssignmentWatchStage::Done;
        refusal
    }
}

fn draining_refusal() -> RequestRefusal {
    RequestRefusal::new(RefusalKind::Draining, "this process is shutting down; reconnect to another one")
}
