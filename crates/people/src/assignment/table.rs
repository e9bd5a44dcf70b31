//! The transition table of assignments and items. The steps look it up, the tests exercise every row, and the
//! diagrams are drawn from it.

use super::input::ItemInputKind;
use super::status::{AssignmentStatus, ItemStatus};

/// The effect of an input on an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignmentEffect {
    /// The assignment changes to this status.
    To(AssignmentStatus),
    /// The assignment keeps its status; a new assignment in this status, or an opening, follows.
    Follows(AssignmentStatus),
    /// A repetition: the same answer is returned and nothing changes.
    Repeats,
}

/// Every legal pair; all others are refused.
pub const ASSIGNMENT: &[(AssignmentStatus, ItemInputKind, AssignmentEffect)] = {
    use AssignmentEffect::{Follows, Repeats, To};
    use AssignmentStatus::{Completed, Expired, InProgress, Pending, Skipped};
    &[
        (Pending, ItemInputKind::Start, To(InProgress)),
        (Pending, ItemInputKind::Expire, To(Expired)),
        (Pending, ItemInputKind::Revoke, To(Expired)),
        (InProgress, ItemInputKind::Start, Repeats),
        (InProgress, ItemInputKind::Submit, To(Completed)),
        (InProgress, ItemInputKind::Skip, To(Skipped)),
        (InProgress, ItemInputKind::Heartbeat, To(InProgress)),
        (InProgress, ItemInputKind::Expire, To(Expired)),
        (InProgress, ItemInputKind::Revoke, To(Expired)),
        (Completed, ItemInputKind::Submit, Repeats),
        (Completed, ItemInputKind::Correct, Follows(Pending)),
        (Expired, ItemInputKind::Reassign, Follows(Pending)),
        (Skipped, ItemInputKind::Skip, Repeats),
        (Skipped, ItemInputKind::Reassign, Follows(Pending)),
    ]
};

/// The statuses that an input may give to an item.
pub const ITEM: &[(ItemStatus, ItemInputKind, &[ItemStatus])] = {
    use ItemStatus::{Done, Escalated, Failed, Open, Withdrawn};
    &[
        (Open, ItemInputKind::Assign, &[Open]),
        (Open, ItemInputKind::Submit, &[Open, Done, Failed, Escalated]),
        (Open, ItemInputKind::Skip, &[Open, Failed, Escalated]),
        (Open, ItemInputKind::Expire, &[Open, Failed, Escalated]),
        (Open, ItemInputKind::Revoke, &[Open, Failed, Escalated]),
        (Open, ItemInputKind::Reassign, &[Open, Failed, Escalated]),
        (Open, ItemInputKind::Correct, &[Open]),
        (Open, ItemInputKind::Withdraw, &[Withdrawn]),
        (Open, ItemInputKind::Overdue, &[Open, Failed, Escalated]),
        (Done, ItemInputKind::Correct, &[Done]),
        (Withdrawn, ItemInputKind::Withdraw, &[Withdrawn]),
    ]
};

/// Inputs that concern one assignment.
pub const ABOUT_ASSIGNMENTS: &[ItemInputKind] = &[
    ItemInputKind::Start,
    ItemInputKind::Submit,
    ItemInputKind::Skip,
    ItemInputKind::Heartbeat,
    ItemInputKind::Expire,
    ItemInputKind::Revoke,
    ItemInputKind::Reassign,
    ItemInputKind::Correct,
];

/// The row for an assignment in this status, if the input is legal.
pub fn assignment_effect(status: AssignmentStatus, input: ItemInputKind) -> Option<AssignmentEffect> {
    ASSIGNMENT.iter().find(|(from, kind, _)| (*from, *kind) == (status, input)).map(|(_, _, line)| *line)
}

/// The statuses that an item may take; empty if the input is illegal.
pub fn item_outcomes(status: ItemStatus, input: ItemInputKind) -> &'static [ItemStatus] {
    ITEM.iter().find(|(from, kind, _)| (*from, *kind) == (status, input)).map_or(&[], |(_, _, to)| to)
}
