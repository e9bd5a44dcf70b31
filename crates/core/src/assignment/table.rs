//! What is possible when. The steps look it up here, the tests exercise every line of it, and the diagrams are
//! drawn from it.

use super::input::InputKind;
use super::status::{AssignmentStatus, ItemStatus};

/// What an input does to an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// It is in this status then.
    To(AssignmentStatus),
    /// It stays as it is and another assignment, or an opening, comes of it.
    Follows(AssignmentStatus),
    /// It was done before: the same is answered again, and nothing changes.
    Repeats,
}

/// Every pair that is possible; all others are refused.
pub const ASSIGNMENT: &[(AssignmentStatus, InputKind, Line)] = {
    use AssignmentStatus::{Completed, Expired, InProgress, Pending, Skipped};
    use Line::{Follows, Repeats, To};
    &[
        (Pending, InputKind::Start, To(InProgress)),
        (Pending, InputKind::Expire, To(Expired)),
        (Pending, InputKind::Revoke, To(Expired)),
        (InProgress, InputKind::Start, Repeats),
        (InProgress, InputKind::Submit, To(Completed)),
        (InProgress, InputKind::Skip, To(Skipped)),
        (InProgress, InputKind::Heartbeat, To(InProgress)),
        (InProgress, InputKind::Expire, To(Expired)),
        (InProgress, InputKind::Revoke, To(Expired)),
        (Completed, InputKind::Submit, Repeats),
        (Completed, InputKind::Correct, Follows(Pending)),
        (Expired, InputKind::Reassign, Follows(Pending)),
        (Skipped, InputKind::Skip, Repeats),
        (Skipped, InputKind::Reassign, Follows(Pending)),
    ]
};

/// What an input may make of an item.
pub const ITEM: &[(ItemStatus, InputKind, &[ItemStatus])] = {
    use ItemStatus::{Done, Escalated, Failed, Open, Withdrawn};
    &[
        (Open, InputKind::Assign, &[Open]),
        (Open, InputKind::Submit, &[Open, Done, Failed, Escalated]),
        (Open, InputKind::Skip, &[Open, Failed, Escalated]),
        (Open, InputKind::Expire, &[Open, Failed, Escalated]),
        (Open, InputKind::Revoke, &[Open, Failed, Escalated]),
        (Open, InputKind::Reassign, &[Open, Failed, Escalated]),
        (Open, InputKind::Correct, &[Open]),
        (Open, InputKind::Withdraw, &[Withdrawn]),
        (Open, InputKind::Overdue, &[Open, Failed, Escalated]),
        (Done, InputKind::Correct, &[Done]),
        (Withdrawn, InputKind::Withdraw, &[Withdrawn]),
    ]
};

/// Inputs that are about one assignment.
pub const ABOUT_ASSIGNMENTS: &[InputKind] = &[
    InputKind::Start,
    InputKind::Submit,
    InputKind::Skip,
    InputKind::Heartbeat,
    InputKind::Expire,
    InputKind::Revoke,
    InputKind::Reassign,
    InputKind::Correct,
];

/// The line for an assignment in this status, if there is one.
pub fn line(status: AssignmentStatus, input: InputKind) -> Option<Line> {
    ASSIGNMENT.iter().find(|(from, kind, _)| (*from, *kind) == (status, input)).map(|(_, _, line)| *line)
}

/// What may become of an item in this status; nothing is possible where it is empty.
pub fn outcomes(status: ItemStatus, input: InputKind) -> &'static [ItemStatus] {
    ITEM.iter().find(|(from, kind, _)| (*from, *kind) == (status, input)).map_or(&[], |(_, _, to)| to)
}
