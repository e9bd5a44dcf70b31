//! How items end.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::id::ItemId;

use super::fixture::{ItemFixture, id, person, queue, raw};
use crate::assignment::{AssignmentStatus, ItemInput, ItemLogKind, ItemStatus, NewQueueItem};

#[test]
fn item_fails_after_max_attempts() {
    let mut desk = ItemFixture::new("max_attempts_total: 2, max_attempts_per_person: 1");
    let one = desk.working("ann");
    assert!(desk.skip(one).told.is_none());
    let two = desk.working("bob");
    let told = desk.skip(two).told.unwrap();
    assert_eq!((told.status, desk.work.item.status), (ItemStatus::Failed, ItemStatus::Failed));
    assert_eq!(told.reason.as_deref(), Some("max_attempts_total is reached"));
    let AttemptOutcome::Permanent { error } = told.to_attempt() else { panic!("{told:?}") };
    assert_eq!(error.to_string(), "item_failed: the item is failed: max_attempts_total is reached");
}

#[test]
fn failing_item_closes_open_assignments() {
    let mut desk = ItemFixture::new("overlap: 2, max_attempts_total: 2");
    let one = desk.working("ann");
    let two = desk.working("bob");
    desk.skip(one);
    assert_eq!((desk.work.item.status, desk.status(two)), (ItemStatus::Failed, AssignmentStatus::Expired));
    assert!(desk.log.iter().any(|entry| entry.what == ItemLogKind::CutOff && entry.assignment == Some(two)));
}

#[test]
fn item_fails_without_eligible_person() {
    let mut desk = ItemFixture::new("people: [ann, bob]");
    let one = desk.working("ann");
    desk.skip(one);
    assert!(
        desk.refused(&ItemInput::Assign { person: person("cem"), next: id(9) })
            .to_string()
            .contains("not eligible")
    );
    let two = desk.working("bob");
    let told = desk.skip(two).told.unwrap();
    assert_eq!(told.reason.as_deref(), Some("no eligible person is left"));
}

#[test]
fn overdue_item_fails_or_escalates() {
    let mut desk = ItemFixture::new("due: 1h");
    assert!(desk.refused(&ItemInput::Overdue).to_string().starts_with("cannot overdue before the deadline"));
    let one = desk.working("ann");
    desk.now = desk.work.item.due_at.unwrap();
    let told = desk.act(&ItemInput::Overdue).told.unwrap();
    assert_eq!(told.reason.as_deref(), Some("it was not done in time"));
    assert_eq!(desk.status(one), AssignmentStatus::Expired);

    let mut desk = ItemFixture::new("due: 1h, escalate: {event: late}");
    desk.now = desk.work.item.due_at.unwrap();
    let told = desk.act(&ItemInput::Overdue).told.unwrap();
    assert_eq!((told.status, told.event.unwrap().as_str()), (ItemStatus::Escalated, "late"));
}

#[test]
fn escalated_item_keeps_its_history() {
    let mut desk = ItemFixture::new("due: 1h, overlap: 2, escalate: {queue: seniors}");
    let mut seniors = queue("overlap: 1, people: [ann, sue], timeout_seconds: 10");
    seniors.name = super::fixture::name("seniors");
    desk.seniors = Some(seniors);
    let one = desk.working("ann");
    desk.skip(one);
    let two = desk.working("bob");
    desk.now = desk.work.item.due_at.unwrap();
    let change = desk.act(&ItemInput::Overdue);
    assert!(change.told.is_none());
    assert_eq!((desk.work.item.queue.as_str(), desk.work.item.status), ("seniors", ItemStatus::Open));
    assert_eq!((desk.status(two), desk.work.opening_count()), (AssignmentStatus::Expired, 1));
    assert_eq!(change.opening.barred, [person("ann")].into(), "a person who skipped it is barred there too");
    let last = desk.working("sue");
    assert_eq!(desk.submit(last, "1").told.unwrap().status, ItemStatus::Done);
}

#[test]
fn item_never_returns_to_escalating_queue() {
    let mut desk = ItemFixture::new("due: 1h, escalate: {queue: seniors}");
    let mut seniors = queue("due: 1h, escalate: {queue: z}");
    seniors.name = super::fixture::name("seniors");
    desk.seniors = Some(seniors.clone());
    desk.now = desk.work.item.due_at.unwrap();
    desk.act(&ItemInput::Overdue);
    desk.now = desk.work.item.due_at.unwrap();
    let told = desk.act(&ItemInput::Overdue).told.unwrap();
    assert_eq!(
        told.reason.as_deref(),
        Some("it was not done in time, and the escalation queue z does not exist")
    );
}

#[test]
fn withdrawn_item_stays_withdrawn() {
    let mut desk = ItemFixture::new("");
    let one = desk.assign("ann");
    let told =
        desk.act(&ItemInput::Withdraw { reason: Some("a mistake".into()), by: Some("eve".into()) }).told;
    assert_eq!(told.unwrap().status, ItemStatus::Withdrawn);
    assert_eq!(desk.status(one), AssignmentStatus::Expired);
    let again = desk.try_step(&ItemInput::Withdraw { reason: None, by: None });
    assert_eq!(again, Ok(crate::assignment::ItemStepOutcome::Repeated));
}

#[test]
fn item_overrides_queue_defaults() {
    let mut new = NewQueueItem::with_defaults(ItemId::parse("i-2").unwrap(), raw("1"));
    new.own.priority = Some(9);
    new.own.overlap = Some(3);
    new.own.skills = [super::fixture::name("latin")].into();
    let desk = ItemFixture::with(queue("skills: [english], priority: 4"), new.clone());
    let item = &desk.work.item;
    assert_eq!((item.priority, item.overlap, item.skills.len()), (9, 3, 2));
    new.own.overlap = Some(6);
    let problems = new.find_problems(&queue("people: [a, b, c]"));
    assert_eq!(
        problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(),
        ["overlap", "overlap"]
    );
}
