//! How items end.

use super::fixture::{Desk, id, person, queue, raw};
use crate::action::Attempt;
use crate::assignment::{AssignmentStatus, Input, ItemStatus, NewItem, What};
use crate::id::ItemId;

#[test]
fn an_item_that_was_given_out_too_often_fails_and_says_so() {
    let mut desk = Desk::new("max_attempts_total: 2, max_attempts_per_labeler: 1");
    let one = desk.working("ann");
    assert!(desk.skip(one).told.is_none());
    let two = desk.working("bob");
    let told = desk.skip(two).told.unwrap();
    assert_eq!((told.status, desk.work.item.status), (ItemStatus::Failed, ItemStatus::Failed));
    assert_eq!(told.reason.as_deref(), Some("max_attempts_total is reached"));
    let Attempt::Permanent { error } = told.attempt() else { panic!("{told:?}") };
    assert_eq!(error.to_string(), "item_failed: the item is failed: max_attempts_total is reached");
}

#[test]
fn an_item_fails_as_soon_as_it_cannot_be_done_any_more_and_what_is_open_ends_with_it() {
    let mut desk = Desk::new("overlap: 2, max_attempts_total: 2");
    let one = desk.working("ann");
    let two = desk.working("bob");
    desk.skip(one);
    assert_eq!((desk.work.item.status, desk.status(two)), (ItemStatus::Failed, AssignmentStatus::Expired));
    assert!(desk.log.iter().any(|entry| entry.what == What::CutOff && entry.assignment == Some(two)));
}

#[test]
fn an_item_fails_when_nobody_is_left() {
    let mut desk = Desk::new("people: [ann, bob]");
    let one = desk.working("ann");
    desk.skip(one);
    assert!(
        desk.refused(&Input::Assign { person: person("cem"), next: id(9) })
            .to_string()
            .contains("not eligible")
    );
    let two = desk.working("bob");
    let told = desk.skip(two).told.unwrap();
    assert_eq!(told.reason.as_deref(), Some("no eligible person is left"));
}

#[test]
fn an_overdue_item_fails_unless_it_escalates() {
    let mut desk = Desk::new("due: 1h");
    assert!(desk.refused(&Input::Overdue).to_string().starts_with("cannot overdue before the deadline"));
    let one = desk.working("ann");
    desk.now = desk.work.item.due_at.unwrap();
    let told = desk.act(&Input::Overdue).told.unwrap();
    assert_eq!(told.reason.as_deref(), Some("it was not done in time"));
    assert_eq!(desk.status(one), AssignmentStatus::Expired);

    let mut desk = Desk::new("due: 1h, escalate: {event: late}");
    desk.now = desk.work.item.due_at.unwrap();
    let told = desk.act(&Input::Overdue).told.unwrap();
    assert_eq!((told.status, told.event.unwrap().as_str()), (ItemStatus::Escalated, "late"));
}

#[test]
fn an_item_that_escalates_to_a_queue_goes_on_there_with_its_history() {
    let mut desk = Desk::new("due: 1h, overlap: 2, escalate: {queue: seniors}");
    let mut seniors = queue("overlap: 1, people: [ann, sue], timeout_seconds: 10");
    seniors.name = super::fixture::name("seniors");
    desk.seniors = Some(seniors);
    let one = desk.working("ann");
    desk.skip(one);
    let two = desk.working("bob");
    desk.now = desk.work.item.due_at.unwrap();
    let change = desk.act(&Input::Overdue);
    assert!(change.told.is_none());
    assert_eq!((desk.work.item.queue.as_str(), desk.work.item.status), ("seniors", ItemStatus::Open));
    assert_eq!((desk.status(two), desk.work.needs()), (AssignmentStatus::Expired, 1));
    assert_eq!(change.opening.barred, [person("ann")].into(), "a person who skipped it is barred there too");
    let last = desk.working("sue");
    assert_eq!(desk.submit(last, "1").told.unwrap().status, ItemStatus::Done);
}

#[test]
fn an_item_never_goes_back_to_a_queue_that_it_was_escalated_from() {
    let mut desk = Desk::new("due: 1h, escalate: {queue: seniors}");
    let mut seniors = queue("due: 1h, escalate: {queue: z}");
    seniors.name = super::fixture::name("seniors");
    desk.seniors = Some(seniors.clone());
    desk.now = desk.work.item.due_at.unwrap();
    desk.act(&Input::Overdue);
    desk.now = desk.work.item.due_at.unwrap();
    let told = desk.act(&Input::Overdue).told.unwrap();
    assert_eq!(
        told.reason.as_deref(),
        Some("it was not done in time, and the escalation queue z does not exist")
    );
}

#[test]
fn a_withdrawn_item_is_told_and_stays_withdrawn() {
    let mut desk = Desk::new("");
    let one = desk.assign("ann");
    let told = desk.act(&Input::Withdraw { reason: Some("a mistake".into()), by: Some("eve".into()) }).told;
    assert_eq!(told.unwrap().status, ItemStatus::Withdrawn);
    assert_eq!(desk.status(one), AssignmentStatus::Expired);
    let again = desk.try_step(&Input::Withdraw { reason: None, by: None });
    assert_eq!(again, Ok(crate::assignment::Stepped::Repeated));
}

#[test]
fn an_item_may_say_more_than_its_queue() {
    let mut new = NewItem::plain(ItemId::parse("i-2").unwrap(), raw("1"));
    new.own.priority = Some(9);
    new.own.overlap = Some(3);
    new.own.skills = [super::fixture::name("latin")].into();
    let desk = Desk::with(queue("skills: [english], priority: 4"), new.clone());
    let item = &desk.work.item;
    assert_eq!((item.priority, item.overlap, item.skills.len()), (9, 3, 2));
    new.own.overlap = Some(6);
    let problems = new.problems(&queue("people: [a, b, c]"));
    assert_eq!(
        problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(),
        ["overlap", "overlap"]
    );
}
