//! The loop of a device: reads its assignments, begins them, and sends heartbeats in time.
//!
//! ```text
//! list (long poll) ─→ new ones: willing? ─→ a task each: accept, start, your function, its outcome
//!                  └→ a run missing from the list is lost: its task is notified
//! heartbeat: periodically, and soon after progress ─→ a run reported as not ours is lost
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::builder::Device;
use super::held_run::{HeldRun, HeldRunStatus};
use super::perform_run::{RunFunction, perform_run};
use crate::client::{ClientError, RunAct, RunAssignment, RunAssignments, RunStatus};

/// How long the server lets a device wait for another list.
const WAIT: Duration = Duration::from_secs(30);
/// Pause before the next try, after the retries of a call are used up.
const PAUSE: Duration = Duration::from_secs(1);
/// Delay of a progress report, and minimum time between two.
const SOON: Duration = Duration::from_millis(500);

/// Identifies an assignment.
type RunAssignmentId = (String, u16, i64);

struct DeviceLoop {
    device: Device,
    perform: RunFunction,
    held: BTreeMap<RunAssignmentId, Arc<HeldRun>>,
    /// Finished assignments, for as long as a list may still contain them.
    over: BTreeSet<RunAssignmentId>,
    tasks: JoinSet<RunAssignmentId>,
    news: Arc<Notify>,
    beaten: Instant,
}

enum DeviceLoopEvent {
    Beat,
    Ended(Option<RunAssignmentId>),
}

pub(super) async fn serve_device(
    device: Device,
    perform: RunFunction,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ClientError> {
    device.client.register_device(&device.device).await?;
    let mut serving = DeviceLoop {
        device,
        perform,
        held: BTreeMap::new(),
        over: BTreeSet::new(),
        tasks: JoinSet::new(),
        news: Arc::new(Notify::new()),
        beaten: Instant::now(),
    };
    serving.work_until(shutdown).await?;
    serving.finish_runs().await
}

impl DeviceLoop {
    /// Runs until `shutdown`.
    async fn work_until(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), ClientError> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut listing = std::pin::pin!(self.next_list(None));
        loop {
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                listed = &mut listing => {
                    let version = match listed? {
                        Some(list) => {
                            let version = list.version.clone();
                            self.take_list(list);
                            Some(version)
                        }
                        None => None,
                    };
                    listing.set(self.next_list(version));
                }
                woken = self.next_event() => self.handle_event(woken).await?,
            }
        }
    }

    /// The next list; `None` when the server is unreachable.
    fn next_list(
        &self,
        if_version: Option<String>,
    ) -> impl Future<Output = Result<Option<RunAssignments>, ClientError>> + use<> {
        let (client, id) = (self.device.client.clone(), self.device.device.id.clone());
        async move {
            // An empty first list counts too: it has a version to wait with.
            let wait = if if_version.is_some() { WAIT } else { Duration::ZERO };
            match client.run_assignments(&id, if_version.as_deref(), wait).await {
                Ok(list) => Ok(Some(list)),
                Err(error) if is_passing(&error) => {
                    tokio::time::sleep(PAUSE).await;
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        }
    }

    fn take_list(&mut self, list: RunAssignments) {
        let listed: BTreeMap<RunAssignmentId, RunAssignment> =
            list.items.into_iter().map(|of| (assignment_id(&of), of)).collect();
        for (id, held) in &self.held {
            let claim = listed.get(id).map_or(HeldRunStatus { lost: true, paused: false }, |of| {
                HeldRunStatus { lost: false, paused: of.paused }
            });
            held.update_status(claim);
        }
        self.over.retain(|id| listed.contains_key(id));
        for (id, of) in listed {
            if !self.held.contains_key(&id) && !self.over.contains(&id) {
                self.begin_assignment(id, of);
            }
        }
    }

    /// Assignments from before a crash of this process are in the list too, and are resumed.
    fn begin_assignment(&mut self, id: RunAssignmentId, of: RunAssignment) {
        let (client, device) = (self.device.client.clone(), self.device.device.id.clone());
        let held = Arc::new(HeldRun::new(of, Arc::clone(&self.news)));
        self.held.insert(id.clone(), Arc::clone(&held));
        match (self.device.willing)(&held.of) {
            Ok(()) => {
                let function = Arc::clone(&self.perform);
                self.tasks.spawn(async move {
                    perform_run(&client, &device, held, function).await;
                    id
                });
            }
            Err(reason) => {
                // Runs created by the device itself are claimed for it without an offer.
                let is_asked = held.of.status == RunStatus::Assigned;
                let refusal = if is_asked { RunAct::Decline(reason) } else { RunAct::Release(reason) };
                self.tasks.spawn(async move {
                    // If the refusal is lost, the assignment runs out by itself.
                    let _ = client.act_on_run(&device, &held.of, &refusal).await;
                    id
                });
            }
        }
    }

    /// Resolves when a heartbeat is due, or a task has ended.
    async fn next_event(&mut self) -> DeviceLoopEvent {
        let wanted = self.held.values().map(|held| Duration::from_millis(held.of.heartbeat_ms.max(1)));
        let every = wanted.min().unwrap_or(self.device.beat_every).min(self.device.beat_every);
        let (due, soon) = (self.beaten + every, self.beaten + SOON);
        let has_news = self.held.values().any(|held| held.has_progress());
        let news = async {
            if !has_news {
                self.news.notified().await;
            }
            tokio::time::sleep_until(soon).await;
        };
        tokio::select! {
            () = tokio::time::sleep_until(due) => DeviceLoopEvent::Beat,
            () = news => DeviceLoopEvent::Beat,
            Some(ended) = self.tasks.join_next() => DeviceLoopEvent::Ended(ended.ok()),
        }
    }

    async fn handle_event(&mut self, woken: DeviceLoopEvent) -> Result<(), ClientError> {
        match woken {
            DeviceLoopEvent::Beat => self.send_heartbeat().await,
            DeviceLoopEvent::Ended(ended) => {
                if let Some(id) = ended {
                    self.held.remove(&id);
                    self.over.insert(id);
                }
                Ok(())
            }
        }
    }

    async fn send_heartbeat(&mut self) -> Result<(), ClientError> {
        self.beaten = Instant::now();
        let all: Vec<(Arc<HeldRun>, _)> =
            self.held.values().map(|held| (Arc::clone(held), held.take_progress())).collect();
        let runs: Vec<_> = all.iter().map(|(held, progress)| (&held.of, progress.as_ref())).collect();
        let vitals = (self.device.vitals)();
        match self.device.client.heartbeat_device(&self.device.device.id, &vitals, &runs).await {
            Ok(heard) => {
                for ((held, _), heard) in all.iter().zip(heard) {
                    held.update_status(HeldRunStatus { lost: heard.release, paused: heard.paused });
                }
                Ok(())
            }
            Err(error) if is_passing(&error) => {
                for (held, progress) in all {
                    held.put_back(progress);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Sends heartbeats for the current runs until they are done, and releases those that are not done in
    /// time.
    async fn finish_runs(&mut self) -> Result<(), ClientError> {
        let grace = tokio::time::sleep(self.device.grace);
        let mut grace = std::pin::pin!(grace);
        while !self.tasks.is_empty() {
            tokio::select! {
                () = &mut grace => break,
                woken = self.next_event() => self.handle_event(woken).await?,
            }
        }
        self.tasks.shutdown().await;
        for held in self.held.values().filter(|held| !held.current_status().lost) {
            let reason = RunAct::Release("the device is shutting down".to_owned());
            // Refused or lost: the run is reassigned anyway.
            let _ = self.device.client.act_on_run(&self.device.device.id, &held.of, &reason).await;
        }
        Ok(())
    }
}

fn assignment_id(of: &RunAssignment) -> RunAssignmentId {
    (of.run_id.clone(), of.seat, of.token)
}

/// Whether the error is transient.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Closed { .. } | ClientError::TimedOut(_) => true,
        ClientError::Refused(problem) => problem.status == 429 || problem.status >= 500,
        ClientError::Unreadable { .. } | ClientError::Unsendable(_) | ClientError::InvalidSetting { .. } => {
            false
        }
    }
}
