//! The step agrees with the transition table: every listed pair is accepted, every other pair is refused with
//! the state.

use std::time::Duration;

use super::fixture::{ItemFixture, id};
use crate::assignment::input::ItemInputKind;
use crate::assignment::table::{self, ABOUT_ASSIGNMENTS, AssignmentEffect};
use crate::assignment::{AssignmentStatus, ItemInput, ItemRefusal, ItemStatus, ItemStepOutcome};

/// An item with two slots and one assignment in this status, which keeps its slot.
fn assignment_in(status: AssignmentStatus) -> ItemFixture {
    let mut desk = ItemFixture::new("overlap: 2, reassign_expired: false, reassign_skipped: false, due: 2d");
    let one = desk.assign("ann");
    assert_eq!(one, id(1));
    if status == AssignmentStatus::Pending {
        return desk;
    }
    desk.start(one);
    match status {
        AssignmentStatus::Pending | AssignmentStatus::InProgress => {}
        AssignmentStatus::Completed => drop(desk.submit(one, "1")),
        AssignmentStatus::Expired => drop(desk.expire(one)),
        AssignmentStatus::Skipped => drop(desk.skip(one)),
    }
    assert_eq!(desk.status(one), status);
    desk
}

#[test]
fn assignment_steps_match_transition_table() {
    let (mut possible, mut refused) = (0, 0);
    for status in AssignmentStatus::ALL {
        for kind in ABOUT_ASSIGNMENTS {
            let mut desk = assignment_in(*status);
            let before = desk.work.assignments.len();
            let input = desk.input(*kind, id(1));
            desk.now = desk.now.plus(Duration::from_secs(7200));
            match (table::assignment_effect(*status, *kind), desk.try_step(&input)) {
                (Some(AssignmentEffect::To(to)), Ok(ItemStepOutcome::Changed(change))) => {
                    assert_eq!(desk.status(id(1)), to, "{status} {kind}");
                    assert_eq!(change.changed.first(), Some(&id(1)));
                    possible += 1;
                }
                (Some(AssignmentEffect::Follows(_)), Ok(ItemStepOutcome::Changed(_))) => {
                    assert_eq!(desk.status(id(1)), *status, "{status} {kind}");
                    let given = desk.work.assignments.len() - before;
                    // Reassigning without a person makes an opening.
                    assert_eq!(
                        (given, desk.work.opening_count()),
                        if *kind == ItemInputKind::Correct { (1, 1) } else { (0, 2) }
                    );
                    possible += 1;
                }
                (Some(AssignmentEffect::Repeats), Ok(ItemStepOutcome::Repeated)) => possible += 1,
                (None, Err(ItemRefusal::Assignment { status: named, input })) => {
                    assert_eq!((named, input), (*status, *kind));
                    refused += 1;
                }
                (line, stepped) => panic!("{status} {kind}: {line:?} {stepped:?}"),
            }
        }
    }
    assert_eq!(possible, table::ASSIGNMENT.len());
    assert_eq!(possible + refused, AssignmentStatus::ALL.len() * ABOUT_ASSIGNMENTS.len());
}

/// An item in this status with one assignment of ann.
fn item_in(status: ItemStatus) -> ItemFixture {
    let escalate = if status == ItemStatus::Escalated { "escalate: {event: late}," } else { "" };
    let mut desk = ItemFixture::new(&format!("{escalate} reassign_expired: false, due: 2d"));
    match status {
        ItemStatus::Open => {}
        ItemStatus::Done => {
            let one = desk.working("ann");
            desk.submit(one, "1");
        }
        ItemStatus::Failed | ItemStatus::Escalated => {
            desk.now = desk.work.item.due_at.unwrap();
            desk.act(&ItemInput::Overdue);
        }
        ItemStatus::Withdrawn => drop(desk.act(&ItemInput::Withdraw { reason: None, by: None })),
    }
    assert_eq!(desk.work.item.status, status);
    desk
}

#[test]
fn item_steps_match_transition_table() {
    for status in ItemStatus::ALL {
        for kind in [ItemInputKind::Assign, ItemInputKind::Withdraw, ItemInputKind::Overdue] {
            let mut desk = item_in(*status);
            let input = desk.input(kind, id(1));
            desk.now = desk.now.plus(Duration::from_secs(3 * 86_400));
            let outcomes = table::item_outcomes(*status, kind);
            match desk.try_step(&input) {
                Ok(_) => assert!(outcomes.contains(&desk.work.item.status), "{status} {kind}"),
                Err(ItemRefusal::Item { status: named, input }) => {
                    assert!(outcomes.is_empty());
                    assert_eq!((named, input), (*status, kind));
                }
                Err(other) => panic!("{status} {kind}: {other}"),
            }
        }
    }
    let mut done = item_in(ItemStatus::Done);
    let correct = done.input(ItemInputKind::Correct, id(1));
    done.act(&correct);
    assert_eq!(done.work.item.status, ItemStatus::Done);
}

#[test]
fn item_refusal_names_state_and_input() {
    let mut desk = assignment_in(AssignmentStatus::Completed);
    let start = desk.input(ItemInputKind::Start, id(1));
    assert_eq!(desk.refused(&start).to_string(), "cannot start: the assignment is completed");
    let mut desk = item_in(ItemStatus::Withdrawn);
    let assign = desk.input(ItemInputKind::Assign, id(1));
    assert_eq!(desk.refused(&assign).to_string(), "cannot assign: the item is withdrawn");
}
