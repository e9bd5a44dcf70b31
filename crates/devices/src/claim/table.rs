//! The transition table of runs: every legal pair of status and input, and the statuses that follow.
//!
//! [`step_run()`](super::step_run()) refuses a pair that is missing here, by this table alone. Some legal pairs have
//! further conditions: the valid token, a due time, a run that is not paused.

use super::input_kind::RunInputKind;
use super::status::SeatStatus;

/// One transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatTransition {
    pub from: SeatStatus,
    pub on: RunInputKind,
    pub to: SeatStatus,
    pub kind: SeatTransitionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatTransitionKind {
    /// Requested by an input.
    Asked,
    /// Follows from an input, in the same commit.
    Follows,
    /// A repetition: succeeds and changes nothing.
    Repeat,
}

const fn transition_on_input(from: SeatStatus, on: RunInputKind, to: SeatStatus) -> SeatTransition {
    SeatTransition { from, on, to, kind: SeatTransitionKind::Asked }
}

const fn transition_that_follows(from: SeatStatus, on: RunInputKind, to: SeatStatus) -> SeatTransition {
    SeatTransition { from, on, to, kind: SeatTransitionKind::Follows }
}

const fn transition_on_repeat(at: SeatStatus, on: RunInputKind) -> SeatTransition {
    SeatTransition { from: at, on, to: at, kind: SeatTransitionKind::Repeat }
}

pub const MOVES: &[SeatTransition] = {
    use RunInputKind as W;
    use SeatStatus as S;
    &[
        transition_on_input(S::Created, W::SelfClaim, S::AssigningToSelf),
        transition_on_input(S::Created, W::Assign, S::AssigningToOther),
        transition_on_input(S::Created, W::NobodyViable, S::Reassigning),
        transition_that_follows(S::Created, W::NobodyLeft, S::Failed),
        transition_on_input(S::Created, W::Pause, S::Created),
        transition_on_input(S::Created, W::Resume, S::Created),
        transition_on_input(S::Created, W::Adopt, S::Created),
        transition_on_input(S::Created, W::Cancel, S::Failed),
        transition_that_follows(S::Created, W::RunFailed, S::Failed),
        transition_that_follows(S::AssigningToSelf, W::Recorded, S::Claimed),
        transition_that_follows(S::AssigningToOther, W::Recorded, S::Assigned),
        transition_on_input(S::Assigned, W::Accept, S::Claimed),
        transition_on_input(S::Assigned, W::Decline, S::Reassigning),
        transition_on_input(S::Assigned, W::AssignmentTimeout, S::Reassigning),
        transition_on_input(S::Assigned, W::DeviceGone, S::Reassigning),
        transition_on_input(S::Assigned, W::OfflineClaim, S::Claimed),
        transition_on_input(S::Assigned, W::OfflineClaim, S::Reassigning),
        transition_on_input(S::Assigned, W::Pause, S::Assigned),
        transition_on_input(S::Assigned, W::Resume, S::Assigned),
        transition_on_input(S::Assigned, W::Adopt, S::Assigned),
        transition_on_input(S::Assigned, W::Cancel, S::Failed),
        transition_that_follows(S::Assigned, W::RunFailed, S::Failed),
        transition_on_input(S::Claimed, W::Start, S::Processing),
        transition_on_input(S::Claimed, W::Heartbeat, S::Claimed),
        transition_on_input(S::Claimed, W::ClaimExpiry, S::Reassigning),
        transition_on_input(S::Claimed, W::HeartbeatTimeout, S::Reassigning),
        transition_on_input(S::Claimed, W::Release, S::Reassigning),
        transition_on_input(S::Claimed, W::Fail, S::Reassigning),
        transition_on_input(S::Claimed, W::Fail, S::Failed),
        transition_on_input(S::Claimed, W::Preempt, S::Reassigning),
        transition_on_input(S::Claimed, W::DeviceGone, S::Reassigning),
        transition_on_input(S::Claimed, W::OfflineClaim, S::Reassigning),
        transition_on_input(S::Claimed, W::Pause, S::Claimed),
        transition_on_input(S::Claimed, W::Resume, S::Claimed),
        transition_on_input(S::Claimed, W::Adopt, S::Claimed),
        transition_on_input(S::Claimed, W::Cancel, S::Failed),
        transition_that_follows(S::Claimed, W::RunFailed, S::Failed),
        transition_on_repeat(S::Claimed, W::SelfClaim),
        transition_on_repeat(S::Claimed, W::Accept),
        transition_on_input(S::Processing, W::Heartbeat, S::Processing),
        transition_on_input(S::Processing, W::Progress, S::Processing),
        transition_on_input(S::Processing, W::Complete, S::Completed),
        transition_on_input(S::Processing, W::Fail, S::Reassigning),
        transition_on_input(S::Processing, W::Fail, S::Failed),
        transition_on_input(S::Processing, W::Release, S::Reassigning),
        transition_on_input(S::Processing, W::Abort, S::Reassigning),
        transition_on_input(S::Processing, W::HeartbeatTimeout, S::Reassigning),
        transition_on_input(S::Processing, W::Preempt, S::Reassigning),
        transition_on_input(S::Processing, W::DeviceGone, S::Reassigning),
        transition_on_input(S::Processing, W::OfflineClaim, S::Reassigning),
        transition_on_input(S::Processing, W::Pause, S::Processing),
        transition_on_input(S::Processing, W::Resume, S::Processing),
        transition_on_input(S::Processing, W::Adopt, S::Processing),
        transition_on_input(S::Processing, W::Cancel, S::Failed),
        transition_that_follows(S::Processing, W::RunFailed, S::Failed),
        transition_on_repeat(S::Processing, W::Accept),
        transition_on_repeat(S::Processing, W::Start),
        transition_on_input(S::Reassigning, W::Assign, S::Assigned),
        transition_on_input(S::Reassigning, W::SelfClaim, S::AssigningToSelf),
        transition_on_input(S::Reassigning, W::NobodyViable, S::Reassigning),
        transition_that_follows(S::Reassigning, W::NobodyLeft, S::Failed),
        transition_on_input(S::Reassigning, W::BackoffOver, S::Reassigning),
        transition_on_input(S::Reassigning, W::OfflineClaim, S::Claimed),
        transition_on_input(S::Reassigning, W::Pause, S::Reassigning),
        transition_on_input(S::Reassigning, W::Resume, S::Reassigning),
        transition_on_input(S::Reassigning, W::Adopt, S::Reassigning),
        transition_on_input(S::Reassigning, W::Cancel, S::Failed),
        transition_that_follows(S::Reassigning, W::RunFailed, S::Failed),
        transition_on_input(S::Completed, W::Adopt, S::Completed),
        transition_on_repeat(S::Completed, W::Complete),
        transition_on_input(S::Failed, W::Retry, S::Reassigning),
        transition_on_input(S::Failed, W::Adopt, S::Reassigning),
        transition_on_repeat(S::Failed, W::Fail),
        transition_on_repeat(S::Failed, W::Cancel),
    ]
};

/// Whether the input may change something in this status, other conditions being met. Repetitions do not
/// count.
pub fn is_legal(from: SeatStatus, on: RunInputKind) -> bool {
    MOVES.iter().any(|way| way.from == from && way.on == on && way.kind == SeatTransitionKind::Asked)
}

/// Whether a log entry matches a transition of the table.
pub fn is_transition(from: SeatStatus, on: RunInputKind, to: SeatStatus) -> bool {
    MOVES.iter().any(|way| way.from == from && way.on == on && way.to == to)
}
