//! Renews leases on actions at a third of their length.
//!
//! One call renews all leases. A lease that the store reports as lost ends its attempt. While the store is
//! unreachable nothing is concluded: the holder's own deadline fences it.

use std::sync::Arc;

use millstream_store::action_store::{LeasePulse, OutcomeDemand};
use tokio::time::Instant;

use super::action_leasing::ActionLeasing;

/// Renews leases until the drain deadline.
pub(crate) async fn renew_leases(leasing: Arc<ActionLeasing>) {
    loop {
        tokio::select! {
            biased;
            () = leasing.env.halt.cancelled() => return,
            () = leasing.leases.until_renewal(leasing.env.options.lease / 3) => {}
        }
        let due = leasing.leases.due_renewals();
        if due.is_empty() {
            continue;
        }
        let asked = Instant::now();
        let grant = leasing.lease_grant(due.len());
        let renewed = leasing
            .env
            .stores
            .actions
            .renew_leases(&due, &leasing.env.options.worker, &grant, leasing.env.now())
            .await;
        match renewed {
            Ok(renewed) => {
                for (beat, pulse) in due.iter().zip(renewed) {
                    match pulse {
                        LeasePulse::Held { until: _, wanted } => {
                            leasing.leases.mark_renewed(&beat.lease, asked);
                            if wanted == OutcomeDemand::Cancelled {
                                leasing.leases.mark_cancelled(&beat.lease);
                            }
                        }
                        LeasePulse::Lost => leasing.leases.mark_lost(&beat.lease),
                    }
                }
            }
            Err(error) => leasing.env.store_outage.record_failure(&error),
        }
    }
}
