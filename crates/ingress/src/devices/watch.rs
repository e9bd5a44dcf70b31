//! Watching what a device has or is asked about: the whole list, and again whenever it is another one.
//!
//! What was missed needs no repair: the next list has it. Who comes back with the mark of the last one hears nothing
//! until there is another.

use std::sync::Arc;

use millstream_core::id::DeviceKey;

use super::assignments::{self, Assignment, LOOK_AGAIN};
use super::beat;
use super::ears::Ear;
use crate::door::Door;
use crate::http::problem::{Kind, Problem};
use crate::quotas::HeldPlace;

/// All that a device has or is asked about.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) all: Vec<Assignment>,
    pub(crate) mark: String,
}

pub(crate) struct Watch {
    door: Arc<Door>,
    device: DeviceKey,
    ear: Ear,
    /// The mark of the list that the device has.
    seen: Option<String>,
    stage: Stage,
    _permit: HeldPlace,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Reading,
    /// The list was told: wait for news first.
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
    // Before the first look, so that nothing is written between the two.
    let ear = door.fleet.ears.of(device.clone());
    Ok(Watch { door, device, ear, seen, stage: Stage::Reading, _permit: permit })
}

impl Watch {
    /// The next list. It ends with an error, which says why and whether to come back.
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
            // One that was forgotten gets nothing any more.
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
    Problem::new(Kind::Draining, "this process is shutting down: watch again at another one")
}
