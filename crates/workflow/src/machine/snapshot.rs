//! Snapshot policy: how often a commit also writes the whole state.

/// Whether a commit writes a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotDecision {
    Write,
    Skip,
}

/// A context up to this size is written with every commit, so that loading never folds.
pub const SMALL_CONTEXT_BYTES: usize = 16 * 1024;

/// A larger context is written every this many transitions, which bounds the fold on loading an execution.
pub const TRANSITIONS_PER_SNAPSHOT: u32 = 32;

/// Whether a commit writes a snapshot. `since_snapshot` counts the transitions since the last one, including
/// those of this commit.
pub fn snapshot_due(context_bytes: usize, since_snapshot: u32) -> SnapshotDecision {
    if context_bytes <= SMALL_CONTEXT_BYTES || since_snapshot >= TRANSITIONS_PER_SNAPSHOT {
        SnapshotDecision::Write
    } else {
        SnapshotDecision::Skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_context_snapshots_every_commit() {
        assert_eq!(snapshot_due(SMALL_CONTEXT_BYTES, 1), SnapshotDecision::Write);
    }

    #[test]
    fn large_context_snapshots_periodically() {
        assert_eq!(
            snapshot_due(SMALL_CONTEXT_BYTES + 1, TRANSITIONS_PER_SNAPSHOT - 1),
            SnapshotDecision::Skip
        );
        assert_eq!(snapshot_due(SMALL_CONTEXT_BYTES + 1, TRANSITIONS_PER_SNAPSHOT), SnapshotDecision::Write);
    }
}
