//! Snapshot interval: how often the whole graph is written.

use crate::machine::SnapshotDecision;

/// Minimum number of transitions between two blobs, which bounds the fold when a small graph is loaded.
const LEAST: usize = 64;
/// For large graphs: one blob per this many changed nodes, so that the cost per node stays constant.
const NODES_PER_TRANSITION: usize = 8;

/// Whether a commit that is `since` transitions after the last blob writes a new one.
pub fn snapshot_due(nodes: usize, since: u32) -> SnapshotDecision {
    let due = LEAST.max(nodes / NODES_PER_TRANSITION);
    if usize::try_from(since).unwrap_or(usize::MAX) >= due {
        SnapshotDecision::Write
    } else {
        SnapshotDecision::Skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_graph_snapshots_every_64_transitions() {
        assert_eq!(snapshot_due(1, 63), SnapshotDecision::Skip);
        assert_eq!(snapshot_due(512, 64), SnapshotDecision::Write);
    }

    #[test]
    fn large_graph_snapshots_scale_with_nodes() {
        assert_eq!(snapshot_due(10_000, 1_249), SnapshotDecision::Skip);
        assert_eq!(snapshot_due(10_000, 1_250), SnapshotDecision::Write);
    }
}
