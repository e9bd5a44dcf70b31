//! The transition table of runs: every legal pair of status and input, and the statuses that follow.
//!
//! [`step`](super::step()) refuses a pair that is missing here, by this table alone. Some legal pairs have
//! further conditions: the valid token, a due time, a run that is not paused.

use super::status::Status;
use super::word::Word;

/// One transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub from: Status,
    pub on: Word,
    pub to: Status,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requested by an input.
    Asked,
    /// Follows from an input, in the same commit.
    Follows,
    /// A repetition: succeeds and changes nothing.
    Repeat,
}

const fn asked(from: Status, on: Word, to: Status) -> Move {
    Move { from, on, to, kind: Kind::Asked }
}

const fn follows(from: Status, on: Word, to: Status) -> Move {
    Move { from, on, to, kind: Kind::Follows }
}

const fn repeat(at: Status, on: Word) -> Move {
    Move { from: at, on, to: at, kind: Kind::Repeat }
}

pub const MOVES: &[Move] = {
    use Status as S;
    use Word as W;
    &[
        asked(S::Created, W::SelfClaim, S::AssigningToSelf),
        asked(S::Created, W::Assign, S::AssigningToOther),
        asked(S::Created, W::NobodyViable, S::Reassigning),
        follows(S::Created, W::NobodyLeft, S::Failed),
        asked(S::Created, W::Pause, S::Created),
        asked(S::Created, W::Resume, S::Created),
        asked(S::Created, W::Adopt, S::Created),
        asked(S::Created, W::Cancel, S::Failed),
        follows(S::Created, W::RunFailed, S::Failed),
        follows(S::AssigningToSelf, W::Recorded, S::Claimed),
        follows(S::AssigningToOther, W::Recorded, S::Assigned),
        asked(S::Assigned, W::Accept, S::Claimed),
        asked(S::Assigned, W::Decline, S::Reassigning),
        asked(S::Assigned, W::AssignmentTimeout, S::Reassigning),
        asked(S::Assigned, W::DeviceGone, S::Reassigning),
        asked(S::Assigned, W::OfflineClaim, S::Claimed),
        asked(S::Assigned, W::OfflineClaim, S::Reassigning),
        asked(S::Assigned, W::Pause, S::Assigned),
        asked(S::Assigned, W::Resume, S::Assigned),
        asked(S::Assigned, W::Adopt, S::Assigned),
        asked(S::Assigned, W::Cancel, S::Failed),
        follows(S::Assigned, W::RunFailed, S::Failed),
        asked(S::Claimed, W::Start, S::Processing),
        asked(S::Claimed, W::Heartbeat, S::Claimed),
        asked(S::Claimed, W::ClaimExpiry, S::Reassigning),
        asked(S::Claimed, W::HeartbeatTimeout, S::Reassigning),
        asked(S::Claimed, W::Release, S::Reassigning),
        asked(S::Claimed, W::Fail, S::Reassigning),
        asked(S::Claimed, W::Fail, S::Failed),
        asked(S::Claimed, W::Preempt, S::Reassigning),
        asked(S::Claimed, W::DeviceGone, S::Reassigning),
        asked(S::Claimed, W::OfflineClaim, S::Reassigning),
        asked(S::Claimed, W::Pause, S::Claimed),
        asked(S::Claimed, W::Resume, S::Claimed),
        asked(S::Claimed, W::Adopt, S::Claimed),
        asked(S::Claimed, W::Cancel, S::Failed),
        follows(S::Claimed, W::RunFailed, S::Failed),
        repeat(S::Claimed, W::SelfClaim),
        repeat(S::Claimed, W::Accept),
        asked(S::Processing, W::Heartbeat, S::Processing),
        asked(S::Processing, W::Progress, S::Processing),
        asked(S::Processing, W::Complete, S::Completed),
        asked(S::Processing, W::Fail, S::Reassigning),
        asked(S::Processing, W::Fail, S::Failed),
        asked(S::Processing, W::Release, S::Reassigning),
        asked(S::Processing, W::Abort, S::Reassigning),
        asked(S::Processing, W::HeartbeatTimeout, S::Reassigning),
        asked(S::Processing, W::Preempt, S::Reassigning),
        asked(S::Processing, W::DeviceGone, S::Reassigning),
        asked(S::Processing, W::OfflineClaim, S::Reassigning),
        asked(S::Processing, W::Pause, S::Processing),
        asked(S::Processing, W::Resume, S::Processing),
        asked(S::Processing, W::Adopt, S::Processing),
        asked(S::Processing, W::Cancel, S::Failed),
        follows(S::Processing, W::RunFailed, S::Failed),
        repeat(S::Processing, W::Accept),
        repeat(S::Processing, W::Start),
        asked(S::Reassigning, W::Assign, S::Assigned),
        asked(S::Reassigning, W::SelfClaim, S::AssigningToSelf),
        asked(S::Reassigning, W::NobodyViable, S::Reassigning),
        follows(S::Reassigning, W::NobodyLeft, S::Failed),
        asked(S::Reassigning, W::BackoffOver, S::Reassigning),
        asked(S::Reassigning, W::OfflineClaim, S::Claimed),
        asked(S::Reassigning, W::Pause, S::Reassigning),
        asked(S::Reassigning, W::Resume, S::Reassigning),
        asked(S::Reassigning, W::Adopt, S::Reassigning),
        asked(S::Reassigning, W::Cancel, S::Failed),
        follows(S::Reassigning, W::RunFailed, S::Failed),
        asked(S::Completed, W::Adopt, S::Completed),
        repeat(S::Completed, W::Complete),
        asked(S::Failed, W::Retry, S::Reassigning),
        asked(S::Failed, W::Adopt, S::Reassigning),
        repeat(S::Failed, W::Fail),
        repeat(S::Failed, W::Cancel),
    ]
};

/// Whether the input may change something in this status, other conditions being met. Repetitions do not
/// count.
pub fn is_legal(from: Status, on: Word) -> bool {
    MOVES.iter().any(|way| way.from == from && way.on == on && way.kind == Kind::Asked)
}

/// Whether a log entry matches a transition of the table.
pub fn leads(from: Status, on: Word, to: Status) -> bool {
    MOVES.iter().any(|way| way.from == from && way.on == on && way.to == to)
}
