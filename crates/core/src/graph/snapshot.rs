//! How often a graph is written as a whole.

use crate::machine::Snapshot;

/// At least so many transitions lie between two blobs, which is also what loading a small graph has to fold.
const LEAST: usize = 64;
/// Of a large graph: one blob per this many nodes changed, so that its cost per node does not grow with it.
const NODES_PER_TRANSITION: usize = 8;

/// Whether the commit that makes it `since` transitions since the last blob writes one.
pub fn snapshot_due(nodes: usize, since: u32) -> Snapshot {
    let due = LEAST.max(nodes / NODES_PER_TRANSITION);
    if usize::try_from(since).unwrap_or(usize::MAX) >= due { Snapshot::Write } else { Snapshot::Skip }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_graph_is_written_every_64_transitions() {
        assert_eq!(snapshot_due(1, 63), Snapshot::Skip);
        assert_eq!(snapshot_due(512, 64), Snapshot::Write);
    }

    #[test]
    fn a_large_graph_is_written_every_eighth_of_its_nodes() {
        assert_eq!(snapshot_due(10_000, 1_249), Snapshot::Skip);
        assert_eq!(snapshot_due(10_000, 1_250), Snapshot::Write);
    }
}
