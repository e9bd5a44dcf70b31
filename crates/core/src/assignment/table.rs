//! The transition table of assignments and items. The steps look it up, the tests exercise every row, and the
//! diagrams are drawn from it.

use super::input::InputKind;
use super::status::{AssignmentStatus, ItemStatus};

/// The effect of an input on an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The assignment changes to this status.
    To(AssignmentStatus),
    /// The assignment keeps its status; a new assignment in this status, or an opening, follows.
    Follows(AssignmentStatus),
    /// A repetition: the same answer is returned and nothing changes.
    Repeats,
}

/// Every legal pair; all others are refused.
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

/// The statuses that an input may give to an item.
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

/// Inputs that concern one assignment.
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

/// The row for an assignment in this status, if the input is legal.
pub fn line(status: AssignmentStatus, input: InputKind) -> Option<Line> {
    ASSIGNMENT.iter().find(|(from, kind, _)| (*from, *kind) == (status, input)).map(|(_, _, line)| *line)
}

/// The statuses that an item may take; empty if the input is illegal.
pub fn outcomes(status: ItemStatus, input: InputKind) -> &'static [ItemStatus] {
    ITEM.iter().find(|(from, kind, _)| (*from, *kind) == (status, input)).map_or(&[], |(_, _, to)| to)
}
