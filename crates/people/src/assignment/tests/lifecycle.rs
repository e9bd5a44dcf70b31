//! The lifecycle of an assignment: its person, its deadlines, and the reassignment of its slot.

use std::time::Duration;

use super::fixture::{ItemFixture, id, person};
use crate::assignment::select::{OpeningChange, OpeningClass};
use crate::assignment::{
    AssignmentStatus, ItemInput, ItemLogKind, ItemRefusal, ItemStatus, ItemStepOutcome, QueueState,
};

#[test]
fn assignment_is_started_and_submitted() {
    let mut desk = ItemFixture::new("");
    let one = desk.assign("ann");
    assert_eq!((desk.status(one), desk.one(one).attempts), (AssignmentStatus::Pending, 0));
    assert_eq!(desk.one(one).deadline, Some(desk.now.plus(Duration::from_secs(300))));
    let change = desk.start(one);
    assert_eq!(change.opening.change, OpeningChange::None);
    assert_eq!((desk.one(one).attempts, desk.one(one).started_at), (1, Some(desk.now)));
    assert_eq!(desk.one(one).deadline, Some(desk.now.plus(Duration::from_secs(3600))));
    let change = desk.submit(one, r#"{"label":"cat"}"#);
    assert_eq!((desk.status(one), desk.work.item.status), (AssignmentStatus::Completed, ItemStatus::Done));
    let told = change.told.unwrap();
    assert_eq!(told.status, ItemStatus::Done);
    assert_eq!(desk.one(one).deadline, None);
}

#[test]
fn pending_assignment_without_timeout_never_expires() {
    let mut desk = ItemFixture::new("pre_assignment_timeout: null");
    let one = desk.assign("ann");
    assert_eq!(desk.one(one).deadline, None);
    let refusal = desk.refused(&ItemInput::Expire { assignment: one, next: id(9) });
    assert!(matches!(refusal, ItemRefusal::NoDeadline { .. }), "{refusal}");
}

#[test]
fn assignment_cannot_expire_before_deadline() {
    let mut desk = ItemFixture::new("");
    let one = desk.assign("ann");
    let refusal = desk.refused(&ItemInput::Expire { assignment: one, next: id(9) });
    assert!(matches!(refusal, ItemRefusal::NotDue { .. }), "{refusal}");
}

#[test]
fn assignment_belongs_to_its_person() {
    let mut desk = ItemFixture::new("");
    let one = desk.assign("ann");
    let refusal = desk.refused(&ItemInput::Start { assignment: one, person: person("bob") });
    assert_eq!(refusal.to_string(), "the assignment does not belong to bob");
    assert!(matches!(
        desk.refused(&ItemInput::Start { assignment: id(77), person: person("bob") }),
        ItemRefusal::Unknown(_)
    ));
}

#[test]
fn repeated_assignment_input_repeats_its_answer() {
    let mut desk = ItemFixture::new("overlap: 2");
    let one = desk.working("ann");
    let again = ItemInput::Start { assignment: one, person: person("ann") };
    assert_eq!(desk.try_step(&again), Ok(ItemStepOutcome::Repeated));
    desk.submit(one, "1");
    let same = ItemInput::Submit { assignment: one, person: person("ann"), answer: super::fixture::raw("1") };
    assert_eq!(desk.try_step(&same), Ok(ItemStepOutcome::Repeated));
    let other =
        ItemInput::Submit { assignment: one, person: person("ann"), answer: super::fixture::raw("2") };
    assert!(matches!(desk.refused(&other), ItemRefusal::OtherAnswer { .. }));
}

#[test]
fn heartbeat_extends_assignment_deadline() {
    let mut desk = ItemFixture::new("timeout_seconds: 60");
    let one = desk.working("ann");
    desk.now = desk.now.plus(Duration::from_secs(50));
    desk.act(&ItemInput::Heartbeat { assignment: one, person: person("ann") });
    assert_eq!(desk.one(one).deadline, Some(desk.now.plus(Duration::from_secs(60))));
    assert_eq!(desk.one(one).heartbeat_at, Some(desk.now));
}

#[test]
fn expired_assignment_returns_until_attempts_exhausted() {
    let mut desk = ItemFixture::new("");
    let one = desk.working("ann");
    let change = desk.expire(one);
    assert_eq!(
        change.log.iter().map(|entry| entry.what).collect::<Vec<_>>(),
        [ItemLogKind::Expired, ItemLogKind::Reserved]
    );
    assert_eq!(desk.open().person, person("ann"));
    assert_eq!((desk.open().attempt, desk.open().attempts), (2, 1));
    // Both a pending and a started assignment count as an attempt.
    let second = desk.open().id;
    desk.expire(second);
    let third = desk.open().id;
    let change = desk.expire(third);
    assert_eq!((desk.work.open_count(), desk.work.opening_count()), (0, 1));
    assert_eq!(change.opening.change, OpeningChange::Place);
    assert_eq!(change.opening.barred, [person("ann")].into());
    assert_eq!(desk.work.item.class, OpeningClass::Reopened);
    assert!(matches!(
        desk.refused(&ItemInput::Assign { person: person("ann"), next: id(99) }),
        ItemRefusal::Barred { .. }
    ));
    desk.working("bob");
}

#[test]
fn paused_queue_reserves_no_slot() {
    let mut desk = ItemFixture::new("");
    let one = desk.working("ann");
    desk.state = QueueState::Paused;
    desk.expire(one);
    assert_eq!((desk.work.open_count(), desk.work.opening_count()), (0, 1));
    desk.state = QueueState::Active;
    desk.working("ann");
}

#[test]
fn skipped_item_never_returns_to_person() {
    let mut desk = ItemFixture::new("");
    let one = desk.working("ann");
    let change = desk.skip(one);
    assert_eq!(change.opening.barred, [person("ann")].into());
    assert!(matches!(
        desk.refused(&ItemInput::Assign { person: person("ann"), next: id(9) }),
        ItemRefusal::Barred { .. }
    ));
    let next = id(9);
    let mut kept = ItemFixture::new("reassign_skipped: false");
    let one = kept.working("ann");
    kept.skip(one);
    assert_eq!(kept.work.opening_count(), 0);
    let back = ItemInput::Reassign { assignment: one, to: Some(person("ann")), next, by: None };
    assert!(matches!(kept.refused(&back), ItemRefusal::Barred { .. }));
    kept.act(&ItemInput::Reassign { assignment: one, to: Some(person("bob")), next, by: Some("eve".into()) });
    assert_eq!(kept.open().person, person("bob"));
    assert_eq!(kept.log.last().unwrap().by.as_deref(), Some("eve"));
    let again = ItemInput::Reassign { assignment: one, to: None, next: id(10), by: None };
    assert!(matches!(kept.refused(&again), ItemRefusal::GivenOn { .. }));
}

#[test]
fn queue_may_require_skip_reason() {
    let mut desk = ItemFixture::new("skip_requires_reason: true");
    let one = desk.working("ann");
    let skip = |reason: Option<&str>| ItemInput::Skip {
        assignment: one,
        person: person("ann"),
        reason: reason.map(str::to_owned),
    };
    assert_eq!(desk.refused(&skip(None)), ItemRefusal::ReasonNeeded);
    assert_eq!(desk.refused(&skip(Some("  "))), ItemRefusal::ReasonNeeded);
    assert!(matches!(desk.refused(&skip(Some(&"x".repeat(3000)))), ItemRefusal::ReasonTooLong(_)));
    desk.act(&skip(Some(" blurred ")));
    assert_eq!(desk.one(one).skip_reason.as_deref(), Some("blurred"));
}

#[test]
fn kept_slot_waits_for_operator() {
    let mut desk = ItemFixture::new("reassign_expired: false");
    let one = desk.working("ann");
    desk.expire(one);
    assert_eq!((desk.work.open_count(), desk.work.opening_count()), (0, 0));
    desk.act(&ItemInput::Reassign { assignment: one, to: None, next: id(9), by: None });
    assert_eq!(desk.work.opening_count(), 1);
}

#[test]
fn revoked_assignment_goes_to_another_person() {
    let mut desk = ItemFixture::new("");
    let one = desk.working("ann");
    let to =
        |who: Option<&str>| ItemInput::Revoke { assignment: one, to: who.map(person), next: id(9), by: None };
    assert!(matches!(desk.refused(&to(Some("ann"))), ItemRefusal::Barred { .. }));
    desk.act(&to(Some("bob")));
    assert_eq!((desk.status(one), desk.open().person.as_str()), (AssignmentStatus::Expired, "bob"));
    let submit = desk.input(crate::assignment::input::ItemInputKind::Submit, one);
    assert!(matches!(desk.refused(&submit), ItemRefusal::Assignment { .. }));
    let mut desk = ItemFixture::new("");
    let one = desk.assign("ann");
    desk.act(&ItemInput::Revoke { assignment: one, to: None, next: id(9), by: None });
    assert!(matches!(
        desk.refused(&ItemInput::Assign { person: person("ann"), next: id(9) }),
        ItemRefusal::Barred { .. }
    ));
}

#[test]
fn overlap_requires_distinct_persons() {
    let mut desk = ItemFixture::new("overlap: 2");
    let one = desk.working("ann");
    assert_eq!(desk.work.opening_count(), 1);
    assert!(matches!(
        desk.refused(&ItemInput::Assign { person: person("ann"), next: id(9) }),
        ItemRefusal::Barred { .. }
    ));
    desk.submit(one, "1");
    assert_eq!(desk.work.item.status, ItemStatus::Open);
    let two = desk.working("bob");
    assert!(matches!(
        desk.refused(&ItemInput::Assign { person: person("cem"), next: id(9) }),
        ItemRefusal::NoOpening { .. }
    ));
    assert!(desk.submit(two, "1").told.is_some());
}
