//! The operator: monitors open runs, invites devices to runs without a chosen device, and interferes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::device::TorturePhase;
use super::plan;
use super::record::DeviceRecord;
use super::wire::{DeviceReply, DeviceWire};
use crate::chance::TortureRandom;

const LOOK: Duration = Duration::from_millis(500);
const PAGE: usize = 500;
/// Devices invited to the same run at once.
const INVITED: usize = 3;

/// Unfinished runs at the time of the last look.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenWork {
    pub(super) runs: Vec<OpenRun>,
}

#[derive(Debug, Clone)]
pub(super) struct OpenRun {
    id: String,
    is_wanted: bool,
    is_paused: bool,
}

pub(super) struct TortureOperator {
    pub(super) wire: DeviceWire,
    pub(super) record: DeviceRecord,
    pub(super) phase: watch::Receiver<TorturePhase>,
    pub(super) invitations: Vec<mpsc::UnboundedSender<String>>,
    /// Number of open runs as last seen; creators increment it.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) chance: TortureRandom,
}

/// Several devices are notified of a run at once; one may claim it.
pub(super) fn invite_device(
    invitations: &[mpsc::UnboundedSender<String>],
    run: &str,
    chance: &mut TortureRandom,
) {
    let mut chosen = BTreeSet::new();
    while chosen.len() < INVITED {
        chosen.insert(chance.index(invitations.len()));
    }
    for number in chosen {
        // A finished device does not receive it.
        drop(invitations[number].send(run.to_owned()));
    }
}

impl TortureOperator {
    /// Runs until every run has ended after the faults, or until `Over`. Publishes each look.
    pub(super) async fn watch_runs(mut self, seen: watch::Sender<OpenWork>) {
        let mut paused_devices: BTreeSet<usize> = BTreeSet::new();
        loop {
            let phase = *self.phase.borrow();
            if let Some(open) = self.list_open_work().await {
                self.open.store(open.runs.len(), Ordering::SeqCst);
                for run in open.runs.iter().filter(|run| run.is_wanted && !run.is_paused) {
                    invite_device(&self.invitations, &run.id, &mut self.chance);
                }
                match phase {
                    TorturePhase::Wild => self.interfere(&open, &mut paused_devices).await,
                    TorturePhase::Calm => self.put_right(&open, &mut paused_devices).await,
                    TorturePhase::Over => return,
                }
                seen.send_replace(open);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// `None` where an ingress did not answer.
    async fn list_open_work(&self) -> Option<OpenWork> {
        let mut runs = Vec::new();
        for status in ["created", "assigned", "claimed", "processing", "reassigning"] {
            let path = format!("/v1/runs?status={status}&limit={PAGE}");
            let DeviceReply::Answered { status: 200, body } = self.wire.get(&path, Duration::ZERO).await
            else {
                return None;
            };
            let is_open = ["created", "reassigning"].contains(&status);
            runs.extend(body["items"].as_array().into_iter().flatten().filter_map(|item| {
                Some(OpenRun {
                    id: item["run_id"].as_str()?.to_owned(),
                    is_wanted: is_open && item["assign"] == "manual",
                    is_paused: item["paused"] == true,
                })
            }));
        }
        Some(OpenWork { runs })
    }

    async fn send_command(&self, path: &str, body: Option<&Value>) -> bool {
        let reply = self.wire.send(Method::POST, path, body, Duration::ZERO).await;
        matches!(reply, DeviceReply::Answered { status: 200, .. })
    }

    async fn interfere(&mut self, open: &OpenWork, paused: &mut BTreeSet<usize>) {
        self.pause_devices(paused).await;
        for run in open.runs.iter().filter(|run| run.is_paused) {
            if self.chance.percent(40) {
                self.send_command(&format!("/v1/runs/{}/resume", run.id), None).await;
            }
        }
        if open.runs.is_empty() {
            return;
        }
        let id = &open.runs[self.chance.index(open.runs.len())].id;
        let (name, path, body) = match self.chance.below(100) {
            0..55 => ("run paused", "pause", None),
            55..63 => ("run cancelled", "cancel", Some(json!({ "reason": "no longer wanted" }))),
            63..75 => return self.retry_one().await,
            _ => return,
        };
        if self.send_command(&format!("/v1/runs/{id}/{path}"), body.as_ref()).await {
            self.record.record_fault(name);
        }
    }

    /// Retries one of the most recently failed runs.
    async fn retry_one(&self) {
        let DeviceReply::Answered { status: 200, body } =
            self.wire.get("/v1/runs?status=failed&limit=3", Duration::ZERO).await
        else {
            return;
        };
        if let Some(id) = body["items"][0]["run_id"].as_str()
            && self.send_command(&format!("/v1/runs/{id}/retry"), None).await
        {
            self.record.record_fault("run retried");
        }
    }

    async fn pause_devices(&mut self, paused: &mut BTreeSet<usize>) {
        let number = self.chance.index(self.invitations.len());
        if self.chance.percent(35) && paused.len() < 5 {
            if self.send_command(&format!("/v1/devices/{}/pause", plan::device_name(number)), None).await {
                self.record.record_fault("device paused");
                paused.insert(number);
            }
        } else if self.chance.percent(40) {
            self.resume_devices(paused, 1).await;
        }
    }

    async fn resume_devices(&self, paused: &mut BTreeSet<usize>, most: usize) {
        let some: Vec<usize> = paused.iter().copied().take(most).collect();
        for number in some {
            let path = format!("/v1/devices/{}/resume", plan::device_name(number));
            // A device that left returns unpaused.
            let reply = self.wire.send(Method::POST, &path, None, Duration::ZERO).await;
            if matches!(reply, DeviceReply::Answered { status: 200 | 404, .. }) {
                paused.remove(&number);
            }
        }
    }

    async fn put_right(&self, open: &OpenWork, paused: &mut BTreeSet<usize>) {
        self.resume_devices(paused, usize::MAX).await;
        for run in open.runs.iter().filter(|run| run.is_paused) {
            self.send_command(&format!("/v1/runs/{}/resume", run.id), None).await;
        }
    }
}
