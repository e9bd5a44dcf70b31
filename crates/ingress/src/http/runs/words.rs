//! The words of runs in the API, for those of the engine.

use millstream_api::run_log::RunLogWord;
use millstream_api::runs::{RunAssignmentMode, RunDueAction, RunFailureKind, RunLossReason, RunStatus};
use millstream_devices::claim::{
    RunAssignMode, RunInputKind, SeatDue, SeatFailureKind, SeatLossReason, SeatStatus,
};

pub(in crate::http) const fn run_status(status: SeatStatus) -> RunStatus {
    match status {
        SeatStatus::Created => RunStatus::Created,
        SeatStatus::AssigningToSelf => RunStatus::AssigningToSelf,
        SeatStatus::AssigningToOther => RunStatus::AssigningToOther,
        SeatStatus::Assigned => RunStatus::Assigned,
        SeatStatus::Claimed => RunStatus::Claimed,
        SeatStatus::Processing => RunStatus::Processing,
        SeatStatus::Reassigning => RunStatus::Reassigning,
        SeatStatus::Completed => RunStatus::Completed,
        SeatStatus::Failed => RunStatus::Failed,
    }
}

pub(super) const fn assignment_mode(mode: RunAssignMode) -> RunAssignmentMode {
    match mode {
        RunAssignMode::Auto => RunAssignmentMode::Auto,
        RunAssignMode::Manual => RunAssignmentMode::Manual,
    }
}

pub(super) const fn due_action(due: SeatDue) -> RunDueAction {
    match due {
        SeatDue::Place => RunDueAction::Place,
        SeatDue::AssignmentTimeout => RunDueAction::AssignmentTimeout,
        SeatDue::ClaimExpiry => RunDueAction::ClaimExpiry,
        SeatDue::HeartbeatTimeout => RunDueAction::HeartbeatTimeout,
        SeatDue::BackoffOver => RunDueAction::BackoffOver,
    }
}

pub(super) const fn failure_kind(kind: SeatFailureKind) -> RunFailureKind {
    match kind {
        SeatFailureKind::Error => RunFailureKind::Error,
        SeatFailureKind::NobodyLeft => RunFailureKind::NobodyLeft,
        SeatFailureKind::Cancelled => RunFailureKind::Cancelled,
        SeatFailureKind::OtherSeat => RunFailureKind::OtherSeat,
    }
}

pub(super) const fn loss_reason(reason: SeatLossReason) -> RunLossReason {
    match reason {
        SeatLossReason::Timeout => RunLossReason::Timeout,
        SeatLossReason::Declined => RunLossReason::Declined,
        SeatLossReason::Failed => RunLossReason::Failed,
        SeatLossReason::Released => RunLossReason::Released,
        SeatLossReason::Preempted => RunLossReason::Preempted,
        SeatLossReason::Heartbeat => RunLossReason::Heartbeat,
        SeatLossReason::Gone => RunLossReason::Gone,
        SeatLossReason::Superseded => RunLossReason::Superseded,
    }
}

pub(super) const fn log_word(kind: RunInputKind) -> RunLogWord {
    match kind {
        RunInputKind::Create => RunLogWord::Create,
        RunInputKind::SelfClaim => RunLogWord::SelfClaim,
        RunInputKind::Assign => RunLogWord::Assign,
        RunInputKind::Recorded => RunLogWord::Recorded,
        RunInputKind::NobodyViable => RunLogWord::NobodyViable,
        RunInputKind::Accept => RunLogWord::Accept,
        RunInputKind::Decline => RunLogWord::Decline,
        RunInputKind::AssignmentTimeout => RunLogWord::AssignmentTimeout,
        RunInputKind::Start => RunLogWord::Start,
        RunInputKind::ClaimExpiry => RunLogWord::ClaimExpiry,
        RunInputKind::Heartbeat => RunLogWord::Heartbeat,
        RunInputKind::HeartbeatTimeout => RunLogWord::HeartbeatTimeout,
        RunInputKind::Progress => RunLogWord::Progress,
        RunInputKind::Complete => RunLogWord::Complete,
        RunInputKind::Fail => RunLogWord::Fail,
        RunInputKind::Release => RunLogWord::Release,
        RunInputKind::Abort => RunLogWord::Abort,
        RunInputKind::BackoffOver => RunLogWord::BackoffOver,
        RunInputKind::DeviceGone => RunLogWord::DeviceGone,
        RunInputKind::Preempt => RunLogWord::Preempt,
        RunInputKind::OfflineClaim => RunLogWord::OfflineClaim,
        RunInputKind::Pause => RunLogWord::Pause,
        RunInputKind::Resume => RunLogWord::Resume,
        RunInputKind::Cancel => RunLogWord::Cancel,
        RunInputKind::Retry => RunLogWord::Retry,
        RunInputKind::Adopt => RunLogWord::Adopt,
        RunInputKind::NobodyLeft => RunLogWord::NobodyLeft,
        RunInputKind::RunFailed => RunLogWord::RunFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_words_of_api_are_those_of_engine() {
        for status in SeatStatus::ALL {
            assert_eq!(run_status(*status).as_str(), status.as_str());
        }
        for due in SeatDue::ALL {
            assert_eq!(due_action(*due).as_str(), due.as_str());
        }
        for kind in SeatFailureKind::ALL {
            assert_eq!(failure_kind(*kind).as_str(), kind.as_str());
        }
        for reason in SeatLossReason::ALL {
            assert_eq!(loss_reason(*reason).as_str(), reason.as_str());
        }
        for kind in RunInputKind::ALL {
            assert_eq!(log_word(*kind).as_str(), kind.as_str());
        }
    }
}
