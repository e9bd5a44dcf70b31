//! How often the whole state is written beside the log.

/// Whether a commit writes a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    Write,
    Skip,
}

/// A context up to this size is written with every commit: one row update, and loading never folds.
pub const SMALL_CONTEXT_BYTES: usize = 16 * 1024;

/// A larger one is written when this many transitions have passed, which is also the most that
/// loading an execution ever has to fold.
pub const TRANSITIONS_PER_SNAPSHOT: u32 = 32;

/// Whether the commit that makes it `since_snapshot` transitions since the last snapshot writes one.
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
