//! The fencing token of an attempt at a node, which an executor presents with every report.

use std::fmt;

use millstream_model::id::{Epoch, Seq};

/// Number of bits for the lease epoch.
const EPOCH_BITS: u32 = 20;
const LAST_EPOCH: i64 = (1 << EPOCH_BITS) - 1;

/// One lease on one attempt at a node. Tokens grow with the attempt and with the lease on the same attempt.
/// The epoch alone restarts at every attempt, so it would permit a lost executor to report for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeToken(i64);

impl NodeToken {
    /// `seq` is that of the transition that dispatched the attempt. Leases beyond the millionth share one
    /// token.
    pub fn of_lease(seq: Seq, epoch: Epoch) -> Self {
        let epoch = epoch.0.clamp(0, LAST_EPOCH);
        Self(seq.0.max(0).saturating_mul(1 << EPOCH_BITS).saturating_add(epoch))
    }

    /// A token as presented by an executor; it may be invalid.
    pub const fn from_executor(token: i64) -> Self {
        Self(token)
    }

    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// The seq of the transition that dispatched the attempt.
    pub const fn seq(self) -> Seq {
        Seq(self.0 >> EPOCH_BITS)
    }

    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 & LAST_EPOCH)
    }
}

impl fmt::Display for NodeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_token_encodes_attempt_and_lease() {
        let token = NodeToken::of_lease(Seq(17), Epoch(2));
        assert_eq!((token.seq(), token.epoch()), (Seq(17), Epoch(2)));
        assert_eq!(NodeToken::from_executor(token.as_i64()), token);
    }

    #[test]
    fn node_tokens_of_leases_are_distinct() {
        assert!(NodeToken::of_lease(Seq(14), Epoch(2)) < NodeToken::of_lease(Seq(17), Epoch(1)));
        assert_ne!(NodeToken::of_lease(Seq(14), Epoch(2)), NodeToken::of_lease(Seq(17), Epoch(2)));
    }

    #[test]
    fn node_token_accepts_any_number() {
        for shown in [i64::MIN, -1, 0, i64::MAX] {
            let token = NodeToken::from_executor(shown);
            assert!(token.epoch().0 >= 0 && token.epoch().0 <= LAST_EPOCH);
        }
        assert_eq!(NodeToken::of_lease(Seq(1), Epoch(i64::MAX)).seq(), Seq(1));
        assert_eq!(NodeToken::of_lease(Seq(i64::MAX), Epoch(1)).as_i64(), i64::MAX);
    }
}
