//! Detects the end of graphs whose nodes are performed here.
//!
//! A worker that ends a graph itself knows at once. A worker that only performs nodes of it asks every
//! second, with one read for all graphs of its nodes, so that calls whose result is obsolete are cancelled
//! soon.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::leasing::ActionLeasing;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Graphs read in one statement.
const BATCH: usize = 256;

pub(crate) async fn detect_ended_graphs(leasing: Arc<ActionLeasing>) -> Result<(), DutyError> {
    for graphs in leasing.leases.held_graphs().chunks(BATCH) {
        let views = leasing.env.stores.execution_views.find_executions(graphs).await?;
        let ended = graphs.iter().zip(views).filter(|(_, view)| {
            // A graph that is gone has ended long ago.
            view.as_ref().is_none_or(|view| view.state.phase.is_ended())
        });
        let ended: BTreeSet<_> = ended.map(|(graph, _)| graph.clone()).collect();
        leasing.leases.renew_ended(&ended);
    }
    Ok(())
}
