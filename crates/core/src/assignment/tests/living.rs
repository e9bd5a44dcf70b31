//! The lifecycle of an assignment: its person, its deadlines, and the reassignment of its slot.

use std::time::Duration;

use super::fixture::{Desk, id, person};
use crate::assignment::next::{Class, OpeningChange};
use crate::assignment::{AssignmentStatus, Input, ItemStatus, QueueState, Refusal, Stepped, What};

#[test]
fn an_assignment_is_started_and_handed_in() {
    let mut desk = Desk::new("");
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
fn without_a_pre_assignment_timeout_a_pending_one_waits_for_ever() {
    let mut desk = Desk::new("pre_assignment_timeout: null");
    let one = desk.assign("ann");
    assert_eq!(desk.one(one).deadline, None);
    let refusal = desk.refused(&Input::Expire { assignment: one, next: id(9) });
    assert!(matches!(refusal, Refusal::NoDeadline { .. }), "{refusal}");
}

#[test]
fn nothing_expires_before_its_time() {
    let mut desk = Desk::new("");
    let one = desk.assign("ann");
    let refusal = desk.refused(&Input::Expire { assignment: one, next: id(9) });
    assert!(matches!(refusal, Refusal::NotDue { .. }), "{refusal}");
}

#[test]
fn an_assignment_is_its_persons_alone() {
    let mut desk = Desk::new("");
    let one = desk.assign("ann");
    let refusal = desk.refused(&Input::Start { assignment: one, person: person("bob") });
    assert_eq!(refusal.to_string(), "the assignment does not belong to bob");
    assert!(matches!(
        desk.refused(&Input::Start { assignment: id(77), person: person("bob") }),
        Refusal::Unknown(_)
    ));
}

#[test]
fn what_was_done_before_is_answered_like_then() {
    let mut desk = Desk::new("overlap: 2");
    let one = desk.working("ann");
    let again = Input::Start { assignment: one, person: person("ann") };
    assert_eq!(desk.try_step(&again), Ok(Stepped::Repeated));
    desk.submit(one, "1");
    let same = Input::Submit { assignment: one, person: person("ann"), answer: super::fixture::raw("1") };
    assert_eq!(desk.try_step(&same), Ok(Stepped::Repeated));
    let other = Input::Submit { assignment: one, person: person("ann"), answer: super::fixture::raw("2") };
    assert!(matches!(desk.refused(&other), Refusal::OtherAnswer { .. }));
}

#[test]
fn a_sign_of_life_gives_the_full_time_again() {
    let mut desk = Desk::new("timeout_seconds: 60");
    let one = desk.working("ann");
    desk.now = desk.now.plus(Duration::from_secs(50));
    desk.act(&Input::Heartbeat { assignment: one, person: person("ann") });
    assert_eq!(desk.one(one).deadline, Some(desk.now.plus(Duration::from_secs(60))));
    assert_eq!(desk.one(one).heartbeat_at, Some(desk.now));
}

#[test]
fn what_expires_stays_with_its_person_until_they_had_it_too_often() {
    let mut desk = Desk::new("");
    let one = desk.working("ann");
    let change = desk.expire(one);
    assert_eq!(
        change.log.iter().map(|entry| entry.what).collect::<Vec<_>>(),
        [What::Expired, What::Reserved]
    );
    assert_eq!(desk.open().person, person("ann"));
    assert_eq!((desk.open().attempt, desk.open().attempts), (2, 1));
    // Both a pending and a started assignment count as an attempt.
    let second = desk.open().id;
    desk.expire(second);
    let third = desk.open().id;
    let change = desk.expire(third);
    assert_eq!((desk.work.open(), desk.work.needs()), (0, 1));
    assert_eq!(change.opening.change, OpeningChange::Place);
    assert_eq!(change.opening.barred, [person("ann")].into());
    assert_eq!(desk.work.item.class, Class::Reopened);
    assert!(matches!(
        desk.refused(&Input::Assign { person: person("ann"), next: id(99) }),
        Refusal::Barred { .. }
    ));
    desk.working("bob");
}

#[test]
fn a_paused_queue_reserves_nothing() {
    let mut desk = Desk::new("");
    let one = desk.working("ann");
    desk.state = QueueState::Paused;
    desk.expire(one);
    assert_eq!((desk.work.open(), desk.work.needs()), (0, 1));
    desk.state = QueueState::Active;
    desk.working("ann");
}

#[test]
fn what_was_skipped_never_returns_to_the_same_person() {
    let mut desk = Desk::new("");
    let one = desk.working("ann");
    let change = desk.skip(one);
    assert_eq!(change.opening.barred, [person("ann")].into());
    assert!(matches!(
        desk.refused(&Input::Assign { person: person("ann"), next: id(9) }),
        Refusal::Barred { .. }
    ));
    let next = id(9);
    let mut kept = Desk::new("reassign_skipped: false");
    let one = kept.working("ann");
    kept.skip(one);
    assert_eq!(kept.work.needs(), 0);
    let back = Input::Reassign { assignment: one, to: Some(person("ann")), next, by: None };
    assert!(matches!(kept.refused(&back), Refusal::Barred { .. }));
    kept.act(&Input::Reassign { assignment: one, to: Some(person("bob")), next, by: Some("eve".into()) });
    assert_eq!(kept.open().person, person("bob"));
    assert_eq!(kept.log.last().unwrap().by.as_deref(), Some("eve"));
    let again = Input::Reassign { assignment: one, to: None, next: id(10), by: None };
    assert!(matches!(kept.refused(&again), Refusal::GivenOn { .. }));
}

#[test]
fn a_queue_may_want_a_reason_for_skipping() {
    let mut desk = Desk::new("skip_requires_reason: true");
    let one = desk.working("ann");
    let skip = |reason: Option<&str>| Input::Skip {
        assignment: one,
        person: person("ann"),
        reason: reason.map(str::to_owned),
    };
    assert_eq!(desk.refused(&skip(None)), Refusal::ReasonNeeded);
    assert_eq!(desk.refused(&skip(Some("  "))), Refusal::ReasonNeeded);
    assert!(matches!(desk.refused(&skip(Some(&"x".repeat(3000)))), Refusal::ReasonTooLong(_)));
    desk.act(&skip(Some(" blurred ")));
    assert_eq!(desk.one(one).skip_reason.as_deref(), Some("blurred"));
}

#[test]
fn what_is_not_to_be_reassigned_waits_for_an_operator() {
    let mut desk = Desk::new("reassign_expired: false");
    let one = desk.working("ann");
    desk.expire(one);
    assert_eq!((desk.work.open(), desk.work.needs()), (0, 0));
    desk.act(&Input::Reassign { assignment: one, to: None, next: id(9), by: None });
    assert_eq!(desk.work.needs(), 1);
}

#[test]
fn what_is_taken_back_goes_to_another_person() {
    let mut desk = Desk::new("");
    let one = desk.working("ann");
    let to =
        |who: Option<&str>| Input::Revoke { assignment: one, to: who.map(person), next: id(9), by: None };
    assert!(matches!(desk.refused(&to(Some("ann"))), Refusal::Barred { .. }));
    desk.act(&to(Some("bob")));
    assert_eq!((desk.status(one), desk.open().person.as_str()), (AssignmentStatus::Expired, "bob"));
    let submit = desk.input(crate::assignment::input::InputKind::Submit, one);
    assert!(matches!(desk.refused(&submit), Refusal::Assignment { .. }));
    let mut desk = Desk::new("");
    let one = desk.assign("ann");
    desk.act(&Input::Revoke { assignment: one, to: None, next: id(9), by: None });
    assert!(matches!(
        desk.refused(&Input::Assign { person: person("ann"), next: id(9) }),
        Refusal::Barred { .. }
    ));
}

#[test]
fn so_many_different_people_as_the_overlap_says() {
    let mut desk = Desk::new("overlap: 2");
    let one = desk.working("ann");
    assert_eq!(desk.work.needs(), 1);
    assert!(matches!(
        desk.refused(&Input::Assign { person: person("ann"), next: id(9) }),
        Refusal::Barred { .. }
    ));
    desk.submit(one, "1");
    assert_eq!(desk.work.item.status, ItemStatus::Open);
    let two = desk.working("bob");
    assert!(matches!(
        desk.refused(&Input::Assign { person: person("cem"), next: id(9) }),
        Refusal::NoOpening { .. }
    ));
    assert!(desk.submit(two, "1").told.is_some());
}
