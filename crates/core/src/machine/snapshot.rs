//! Snapshot policy: how often a commit also writes the whole state.

/// Whether a commit writes a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    Write,
    Skip,
}

/// A context up to this size is written with every commit, so that loading never folds.
pub const SMALL_CONTEXT_BYTES: usize = 16 * 1024;

/// A larger context is written every this many transitions, which bounds the fold on loading an execution.
pub const TRANSITIONS_PER_SNAPSHOT: u32 = 32;

/// Whether a commit writes a snapshot. `since_snapshot` counts the transitions since the last one, including
/// those of this commit.
pub fn snapshot_due(context_bytes: usize, since_snapshot: u32) -> Snapshot {
    if context_bytes <= SMALL_CONTEXT_BYTES || since_snapshot >= TRANSITIONS_PER_SNAPSHOT {
        Snapshot::Write
    } else {
        Snapshot::Skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_state_is_written_with_every_commit() {
        assert_eq!(snapshot_due(SMALL_CONTEXT_BYTES, 1), Snapshot::Write);
    }

    #[test]
    fn large_state_is_written_every_so_many_transitions() {
        assert_eq!(snapshot_due(SMALL_CONTEXT_BYTES + 1, TRANSITIONS_PER_SNAPSHOT - 1), Snapshot::Skip);
        assert_eq!(snapshot_due(SMALL_CONTEXT_BYTES + 1, TRANSITIONS_PER_SNAPSHOT), Snapshot::Write);
    }
}
