//! Corrections: new assignments that refer to completed ones.

use super::fixture::{ItemFixture, id, person, raw};
use crate::assignment::agreement::counting_answers;
use crate::assignment::{AssignmentStatus, ItemInput, ItemRefusal, ItemStatus};

#[test]
fn correction_replaces_answer_of_completed_assignment() {
    let mut desk = ItemFixture::new("overlap: 2");
    let one = desk.working("ann");
    desk.submit(one, "1");
    let two = desk.working("bob");
    desk.submit(two, "2");
    assert_eq!(desk.work.item.agreement.as_ref().map(|found| found.agreed), Some(false));
    let before = desk.one(two).clone();

    desk.act(&ItemInput::Correct { assignment: two, person: None, next: id(50), by: None });
    assert_eq!((desk.open().person.as_str(), desk.open().refers_to), ("bob", Some(two)));
    let twice = ItemInput::Correct { assignment: two, person: None, next: id(51), by: None };
    assert_eq!(desk.refused(&twice), ItemRefusal::BeingCorrected(id(50)));
    desk.start(id(50));
    let change = desk.submit(id(50), "1");
    assert!(change.told.is_none(), "the execution already has the outcome");
    assert_eq!(desk.one(two), &before);
    assert_eq!(desk.work.item.agreement.as_ref().map(|found| found.agreed), Some(true));

    desk.act(&ItemInput::Correct { assignment: id(50), person: Some(person("cem")), next: id(52), by: None });
    desk.start(id(52));
    desk.submit(id(52), "3");
    let given: Vec<_> =
        counting_answers(&desk.work).iter().map(|(one, answer)| (one.id, (*answer).clone())).collect();
    assert_eq!(given, [(one, raw("1")), (two, raw("3"))]);
}

#[test]
fn correction_occupies_no_slot() {
    let mut desk = ItemFixture::new("overlap: 2");
    let one = desk.working("ann");
    desk.submit(one, "1");
    desk.act(&ItemInput::Correct { assignment: one, person: None, next: id(50), by: None });
    assert_eq!((desk.work.opening_count(), desk.work.open_count(), desk.work.attempt_count()), (1, 0, 1));
    desk.expire(id(50));
    assert_eq!((desk.status(id(50)), desk.work.assignments.len()), (AssignmentStatus::Expired, 2));
    assert_eq!(desk.work.item.status, ItemStatus::Open);
}
