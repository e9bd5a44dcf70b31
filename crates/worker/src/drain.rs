//! Graceful shutdown: finishes the work in hand and hands back the rest.
//!
//! In order, within `options.drain`: reading stops; visits under way finish; doorbells that are still held
//! are rung again and then acknowledged, so that another worker reads them at once; actions under way finish,
//! and those that did not begin are released; when the time is up attempts are dropped and their leases
//! released; the worker's row and its empty consumer are removed. A step that fails costs other workers the
//! wait for a reclaim or a lease, nothing more.
//!
//! A part of the time is reserved for the last steps. When all of it is up the worker ends in the middle of
//! any step: a store or a stream that does not answer cannot delay it.

use std::sync::Arc;
use std::time::Duration;

use millstream_stream::doorbell::{Doorbell, StreamEntryId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::duties::dead_consumers::GONE;
use crate::environment::WorkerEnvironment;
use crate::leasing::ActionLeasing;
use crate::metrics;
use crate::pipeline::MailboxDecider;
use crate::pipeline::consume::{self, DoorbellArrival};
use crate::pipeline::inbox::Inbox;

/// Time limit of each of the last steps.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// Deadlines of a drain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrainDeadlines {
    /// For the work in hand.
    pub(crate) finish: Instant,
    /// For the whole drain.
    pub(crate) end: Instant,
}

impl DrainDeadlines {
    /// Reserves a fifth, at most five seconds, for handing back.
    pub(crate) fn within_length(length: Duration) -> Self {
        let end = Instant::now() + length;
        Self { finish: end - (length / 5).min(Duration::from_secs(5)), end }
    }
}

/// Takes in the doorbells that the readers still deliver, and hands back all that are held.
pub(crate) async fn hand_back_doorbells(
    decider: &Arc<MailboxDecider>,
    mut kept: Inbox,
    mut arrivals: mpsc::Receiver<DoorbellArrival>,
    deadline: Instant,
) {
    let mut background = JoinSet::new();
    // Ends with the readers: each of them returns after at most one more read.
    while let Ok(Some(arrival)) = tokio::time::timeout_at(deadline, arrivals.recv()).await {
        consume::take_arrival(decider, &mut kept, &mut background, arrival);
    }
    let left = kept.drain_for_hand_back();
    let bells: Vec<Doorbell> =
        left.iter().map(|(execution, _)| Doorbell::Mailbox(execution.clone())).collect();
    let entries: Vec<StreamEntryId> = left.into_iter().flat_map(|(_, entries)| entries).collect();
    if entries.is_empty() {
        return;
    }
    tracing::info!(doorbells = entries.len(), "handing back doorbells");
    let back = async {
        decider.env.streams.bells.publish_bells(&bells).await?;
        decider.env.streams.bells.ack_entries(&entries).await
    };
    match tokio::time::timeout(LAST_STEPS, back).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => decider.env.stream_outage.record_failure(&error),
        Err(_) => decider.env.stream_outage.record_failure(&"no answer while handing back"),
    }
    // The worker that reclaims a doorbell repeats a missing acknowledgement.
    background.shutdown().await;
}

/// Lets duties end by themselves: a duty that has just leased actions still hands them over.
pub(crate) async fn end_duties(duties: &mut JoinSet<()>) {
    let ended = async { while duties.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_STEPS, ended).await;
    duties.shutdown().await;
}

/// Waits for actions under way, then aborts the rest and releases their leases.
pub(crate) async fn finish_actions(
    leasing: &ActionLeasing,
    performing: &mut JoinSet<&'static str>,
    deadline: Instant,
) {
    let idle = async { futures::join!(leasing.slots.all_free(), leasing.node_slots.all_free()) };
    let _ = tokio::time::timeout_at(deadline, idle).await;
    let left = leasing.leases.all_leases();
    leasing.env.halt.cancel();
    let ended = async { while performing.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_STEPS, ended).await;
    performing.shutdown().await;
    if left.is_empty() {
        return;
    }
    tracing::info!(actions = left.len(), "handing back actions");
    let release = leasing.env.stores.actions.release_leases(&left, leasing.env.now());
    match tokio::time::timeout(LAST_STEPS, release).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => leasing.env.store_outage.record_failure(&error),
        Err(_) => leasing.env.store_outage.record_failure(&"no answer while handing back"),
    }
}

/// Removes the worker's row and consumer.
pub(crate) async fn deregister_worker(env: &WorkerEnvironment) {
    let me = &env.options.worker;
    let goodbye = async {
        if let Err(error) = env.stores.workers.deregister_worker(me).await {
            env.store_outage.record_failure(&error);
        }
        if let Err(error) = env.streams.care.remove_consumers(Some(me), GONE).await {
            env.stream_outage.record_failure(&error);
        }
    };
    let _ = tokio::time::timeout(LAST_STEPS, goodbye).await;
    ::metrics::gauge!(metrics::UP, "worker" => me.to_string()).set(0.0);
}
