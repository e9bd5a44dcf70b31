//! Watch stream of a device's assignments: the whole list, and again whenever it changes.
//!
//! Missed lists need no repair: the next list is complete. A client that reconnects with the version tag of
//! its last list receives nothing until the list changes.

use std::sync::Arc;

use millstream_core::id::DeviceKey;

use super::assignments::{self, Assignment, LOOK_AGAIN};
use super::beat;
use super::ears::Ear;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};
use crate::quotas::HeldPlace;

/// A device's assignments and their version tag.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) all: Vec<Assignment>,
    pub(crate) mark: String,
}

pub(crate) struct Watch {
    door: Arc<Door>,
    device: DeviceKey,
    ear: Ear,
    /// Version tag of the list that the device has.
    seen: Option<String>,
    stage: Stage,
    _permit: HeldPlace,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Reading,
    /// The list was sent: wait for a change first.
    Listening,
    Done,
}

pub(crate) async fn watch(
    door: Arc<Door>,
    device: DeviceKey,
    seen: Option<String>,
) -> Result<Watch, Problem> {
    let permit = door.stream_place(&device.tenant)?;
    beat::find(&door, &device).await?;
    // Subscribe before the first read, so that no write falls between the two.
    let ear = door.fleet.ears.of(device.clone());
    Ok(Watch { door, device, ear, seen, stage: Stage::Reading, _permit: permit })
}

impl Watch {
    /// The next list. The stream ends with an error that states the reason and whether to reconnect.
    pub(crate) async fn next(&mut self) -> Option<Result<Listed, Problem>> {
        loop {
            match self.stage {
                Stage::Done => return None,
                Stage::Reading | Stage::Listening if self.door.draining.is_cancelled() => {
                    return Some(Err(self.broken(draining())));
                }
                Stage::Listening => {
                    let draining = self.door.draining.clone();
                    tokio::select! {
                        () = self.ear.listen(LOOK_AGAIN) => {}
                        () = draining.cancelled() => {}
                    }
                    self.stage = Stage::Reading;
                }
                Stage::Reading => match self.look().await {
                    Ok(Some(listed)) => return Some(Ok(listed)),
                    Ok(None) => {}
                    Err(problem) => return Some(Err(self.broken(problem))),
                },
            }
        }
    }

    async fn look(&mut self) -> Result<Option<Listed>, Problem> {
        let all = assignments::of(&self.door, &self.device).await?;
        if all.is_empty() {
            // A device that was removed gets no more lists.
            beat::find(&self.door, &self.device).await?;
        }
        self.stage = Stage::Listening;
        let mark = assignments::mark(&all);
        if self.seen.as_ref() == Some(&mark) {
            return Ok(None);
        }
        self.seen = Some(mark.clone());
        Ok(Some(Listed { all, mark }))
    }

    fn broken(&mut self, problem: Problem) -> Problem {
        self.stage = Stage::Done;
        problem
    }
}

fn draining() -> Problem {
    Problem::new(Kind::Draining, "this process is shutting down; reconnect to another one")
}
