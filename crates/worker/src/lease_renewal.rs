//! Renews leases on actions and locks on executions, both at a third of their length.
//!
//! One call renews all leases. A lease that the store reports as lost ends its attempt. While the store is
//! unreachable nothing is concluded: the holder's own deadline fences it.

use std::convert::Infallible;
use std::sync::Arc;

use millstream_model::id::ExecutionKey;
use millstream_store::action_store::{LeasePulse, OutcomeDemand};
use millstream_stream::locks::LockToken;
use tokio::time::Instant;

use crate::context::WorkerContext;

/// Renews leases until the drain deadline.
pub(crate) async fn renew_leases(worker: Arc<WorkerContext>) {
    loop {
        tokio::select! {
            biased;
            () = worker.halt.cancelled() => return,
            () = worker.leases.until_renewal(worker.options.lease / 3) => {}
        }
        let due = worker.leases.due_renewals();
        if due.is_empty() {
            continue;
        }
        let asked = Instant::now();
        let grant = worker.lease_grant(due.len());
        let renewed =
            worker.deps.stores.actions.renew_leases(&due, &worker.options.worker, &grant, worker.now()).await;
        match renewed {
            Ok(renewed) => {
                for (beat, pulse) in due.iter().zip(renewed) {
                    match pulse {
                        LeasePulse::Held { until: _, wanted } => {
                            worker.leases.mark_renewed(&beat.lease, asked);
                            if wanted == OutcomeDemand::Cancelled {
                                worker.leases.mark_cancelled(&beat.lease);
                            }
                        }
                        LeasePulse::Lost => worker.leases.mark_lost(&beat.lease),
                    }
                }
            }
            Err(error) => worker.store_outage.record_failure(&error),
        }
    }
}

/// Runs `work` and extends its locks meanwhile. Losing a lock changes nothing: the store's fence protects the
/// commit.
pub(crate) async fn while_locked<T>(
    worker: &WorkerContext,
    keys: &[ExecutionKey],
    token: &LockToken,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = extend_locks(worker, keys, token) => match never {},
    }
}

async fn extend_locks(worker: &WorkerContext, keys: &[ExecutionKey], token: &LockToken) -> Infallible {
    loop {
        tokio::time::sleep(worker.options.lock_ttl / 3).await;
        let _ = worker.deps.streams.locks.extend_locks(keys, token, worker.options.lock_ttl).await;
    }
}
