//! A closed-loop load, with or without waiting for its effects.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use crate::completion::{self, CompletionCourse, WorkCounters};
use crate::error::BenchResult;
use crate::generator::{self, SentLoad, on_own_thread};
use crate::plan::LoadAmount;
use crate::request::{EventRequests, SubmitMode};
use crate::target::EngineUnderTest;
use crate::workload::Workload;
use crate::world::BenchWorld;

/// Events of a workload for existing executions.
#[derive(Debug, Clone)]
pub(super) struct WorkloadLoad {
    pub(super) workload: Workload,
    /// Executions are `{prefix}{number}`.
    pub(super) prefix: String,
    pub(super) executions: usize,
    pub(super) submit: SubmitMode,
    pub(super) connections: usize,
}

impl WorkloadLoad {
    pub(super) fn for_workload(
        world: &BenchWorld,
        workload: Workload,
        prefix: String,
        executions: usize,
    ) -> Self {
        let (submit, connections) = (world.plan.submit, world.plan.connections);
        Self { workload, prefix, executions, submit, connections }
    }

    /// Expected counters of the workers after this number of events.
    pub(super) fn expected_counters(&self, events: usize) -> WorkCounters {
        WorkCounters {
            decided: events as u64,
            attempted: (events * self.workload.actions_per_event()) as u64,
        }
    }

    /// Sends everything, without waiting for the effects.
    pub(super) async fn send_events(
        &self,
        subject: &EngineUnderTest,
        amount: LoadAmount,
    ) -> BenchResult<SentLoad> {
        let (address, connections) = (subject.address.clone(), self.connections);
        let requests =
            EventRequests::new(&address, self.workload, &self.prefix, self.executions, self.submit);
        let progress = Arc::new(AtomicUsize::new(0));
        on_own_thread(move || generator::run_closed_loop(address, requests, connections, amount, progress))
            .await
    }

    /// Sends everything and waits until it is processed.
    pub(super) async fn send_and_wait(
        &self,
        world: &BenchWorld,
        subject: &mut EngineUnderTest,
        amount: LoadAmount,
        what: &str,
    ) -> BenchResult<(SentLoad, CompletionCourse)> {
        let baseline = WorkCounters::read_counters(subject).await?.unwrap_or_default();
        let bar = world.plan.progress.start_bar(what, world.plan.workload_events(self.workload));
        let total = Arc::new(OnceLock::new());
        let (sender, known) = (self.clone(), total.clone());
        let (address, requests) = (
            subject.address.clone(),
            EventRequests::new(&subject.address, self.workload, &self.prefix, self.executions, self.submit),
        );
        let sending = async move {
            let (progress, connections) = (Arc::new(AtomicUsize::new(0)), sender.connections);
            let sent = on_own_thread(move || {
                generator::run_closed_loop(address, requests, connections, amount, progress)
            })
            .await?;
            let _ = known.set(sent.accepted);
            Ok(sent)
        };
        let wanted = || total.get().map(|events| self.expected_counters(*events));
        tokio::try_join!(
            sending,
            completion::watch_completion(subject, baseline, wanted, |seen| bar.set_position(seen.decided))
        )
    }
}
