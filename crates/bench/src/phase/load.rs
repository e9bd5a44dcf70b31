//! A closed-loop load, with or without waiting for its effects.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::generator::{self, Sent, on_own_thread};
use crate::plan::Amount;
use crate::quiet::{self, Counters, Quiet};
use crate::request::{Requests, Submit};
use crate::target::Subject;
use crate::workload::Workload;
use crate::world::World;

/// Events of a workload for existing executions.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) workload: Workload,
    /// Executions are `{prefix}{number}`.
    pub(super) prefix: String,
    pub(super) executions: usize,
    pub(super) submit: Submit,
    pub(super) connections: usize,
}

impl Load {
    pub(super) fn of(world: &World, workload: Workload, prefix: String, executions: usize) -> Self {
        let (submit, connections) = (world.plan.submit, world.plan.connections);
        Self { workload, prefix, executions, submit, connections }
    }

    /// Expected counters of the workers after this number of events.
    pub(super) fn leads_to(&self, events: usize) -> Counters {
        Counters { decided: events as u64, attempted: (events * self.workload.actions()) as u64 }
    }

    /// Sends everything, without waiting for the effects.
    pub(super) async fn send(&self, subject: &Subject, amount: Amount) -> Result<Sent> {
        let (address, connections) = (subject.address.clone(), self.connections);
        let requests = Requests::new(&address, self.workload, &self.prefix, self.executions, self.submit);
        let progress = Arc::new(AtomicUsize::new(0));
        on_own_thread(move || generator::closed(address, requests, connections, amount, progress)).await
    }

    /// Sends everything and waits until it is processed.
    pub(super) async fn drive(
        &self,
        world: &World,
        subject: &mut Subject,
        amount: Amount,
        what: &str,
    ) -> Result<(Sent, Quiet)> {
        let baseline = Counters::read(subject).await?.unwrap_or_default();
        let bar = world.plan.progress.bar(what, world.plan.events(self.workload));
        let total = Arc::new(OnceLock::new());
        let (sender, known) = (self.clone(), total.clone());
        let (address, requests) = (
            subject.address.clone(),
            Requests::new(&subject.address, self.workload, &self.prefix, self.executions, self.submit),
        );
        let sending = async move {
            let (progress, connections) = (Arc::new(AtomicUsize::new(0)), sender.connections);
            let sent =
                on_own_thread(move || generator::closed(address, requests, connections, amount, progress))
                    .await?;
            let _ = known.set(sent.accepted);
            Ok(sent)
        };
        let wanted = || total.get().map(|events| self.leads_to(*events));
        tokio::try_join!(sending, quiet::watch(subject, baseline, wanted, |seen| bar.set(seen.decided)))
    }
}
