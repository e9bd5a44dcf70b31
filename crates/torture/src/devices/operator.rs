//! The operator: monitors open runs, invites devices to runs without a chosen device, and interferes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::device::Phase;
use super::plan;
use super::record::Record;
use super::wire::{Reply, Wire};
use crate::chance::Chance;

const LOOK: Duration = Duration::from_millis(500);
const PAGE: usize = 500;
/// Devices invited to the same run at once.
const INVITED: usize = 3;

/// Unfinished runs at the time of the last look.
#[derive(Debug, Clone, Default)]
pub(super) struct Open {
    pub(super) runs: Vec<OpenRun>,
}

#[derive(Debug, Clone)]
pub(super) struct OpenRun {
    id: String,
    is_wanted: bool,
    is_paused: bool,
}

pub(super) struct Operator {
    pub(super) wire: Wire,
    pub(super) record: Record,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) invitations: Vec<mpsc::UnboundedSender<String>>,
    /// Number of open runs as last seen; creators increment it.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) chance: Chance,
}

/// Several devices are notified of a run at once; one may claim it.
pub(super) fn invite(invitations: &[mpsc::UnboundedSender<String>], run: &str, chance: &mut Chance) {
    let mut chosen = BTreeSet::new();
    while chosen.len() < INVITED {
        chosen.insert(chance.index(invitations.len()));
    }
    for number in chosen {
        // A finished device does not receive it.
        drop(invitations[number].send(run.to_owned()));
    }
}

impl Operator {
    /// Runs until every run has ended after the faults, or until `Over`. Publishes each look.
    pub(super) async fn watch(mut self, seen: watch::Sender<Open>) {
        let mut paused_devices: BTreeSet<usize> = BTreeSet::new();
        loop {
            let phase = *self.phase.borrow();
            if let Some(open) = self.look().await {
                self.open.store(open.runs.len(), Ordering::SeqCst);
                for run in open.runs.iter().filter(|run| run.is_wanted && !run.is_paused) {
                    invite(&self.invitations, &run.id, &mut self.chance);
                }
                match phase {
                    Phase::Wild => self.interfere(&open, &mut paused_devices).await,
                    Phase::Calm => self.put_right(&open, &mut paused_devices).await,
                    Phase::Over => return,
                }
                seen.send_replace(open);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// `None` where an ingress did not answer.
    async fn look(&self) -> Option<Open> {
        let mut runs = Vec::new();
        for status in ["created", "assigned", "claimed", "processing", "reassigning"] {
            let path = format!("/v1/runs?status={status}&limit={PAGE}");
            let Reply::Answered { status: 200, body } = self.wire.get(&path, Duration::ZERO).await else {
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
        Some(Open { runs })
    }

    async fn tell(&self, path: &str, body: Option<&Value>) -> bool {
        let reply = self.wire.send(Method::POST, path, body, Duration::ZERO).await;
        matches!(reply, Reply::Answered { status: 200, .. })
    }

    async fn interfere(&mut self, open: &Open, paused: &mut BTreeSet<usize>) {
        self.pause_devices(paused).await;
        for run in open.runs.iter().filter(|run| run.is_paused) {
            if self.chance.percent(40) {
                self.tell(&format!("/v1/runs/{}/resume", run.id), None).await;
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
        if self.tell(&format!("/v1/runs/{id}/{path}"), body.as_ref()).await {
            self.record.fault(name);
        }
    }

    /// Retries one of the most recently failed runs.
    async fn retry_one(&self) {
        let Reply::Answered { status: 200, body } =
            self.wire.get("/v1/runs?status=failed&limit=3", Duration::ZERO).await
        else {
            return;
        };
        if let Some(id) = body["items"][0]["run_id"].as_str()
            && self.tell(&format!("/v1/runs/{id}/retry"), None).await
        {
            self.record.fault("run retried");
        }
    }

    async fn pause_devices(&mut self, paused: &mut BTreeSet<usize>) {
        let number = self.chance.index(self.invitations.len());
        if self.chance.percent(35) && paused.len() < 5 {
            if self.tell(&format!("/v1/devices/{}/pause", plan::name(number)), None).await {
                self.record.fault("device paused");
                paused.insert(number);
            }
        } else if self.chance.percent(40) {
            self.resume_devices(paused, 1).await;
        }
    }

    async fn resume_devices(&self, paused: &mut BTreeSet<usize>, most: usize) {
        let some: Vec<usize> = paused.iter().copied().take(most).collect();
        for number in some {
            let path = format!("/v1/devices/{}/resume", plan::name(number));
            // A device that left returns unpaused.
            let reply = self.wire.send(Method::POST, &path, None, Duration::ZERO).await;
            if matches!(reply, Reply::Answered { status: 200 | 404, .. }) {
                paused.remove(&number);
            }
        }
    }

    async fn put_right(&self, open: &Open, paused: &mut BTreeSet<usize>) {
        self.resume_devices(paused, usize::MAX).await;
        for run in open.runs.iter().filter(|run| run.is_paused) {
            self.tell(&format!("/v1/runs/{}/resume", run.id), None).await;
        }
    }
}
