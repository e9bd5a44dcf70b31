//! Selection of the next assignment: which caller gets which opening.

use super::fixture::{name, person, queue};
use crate::assignment::QueueState;
use crate::assignment::next::{Asking, Candidate, Class, Idle, Load, Profile, Standing, eligible, hand_out};

fn candidate(priority: i32, class: Class, position: i64) -> Candidate {
    Candidate {
        queue: name("q"),
        skills: [].into(),
        needs: 1,
        barred: [].into(),
        standing: Standing { urgency: -priority, class, position },
    }
}

fn asking(who: &str) -> Asking {
    Asking { person: person(who), skills: [].into(), queues: [name("q")].into() }
}

#[test]
fn the_more_urgent_first_then_what_was_had_before_then_the_older() {
    let candidates = [
        candidate(0, Class::Fresh, 1),
        candidate(0, Class::Fresh, 2),
        candidate(0, Class::Reopened, 9),
        candidate(5, Class::Fresh, 8),
    ];
    let callers = ["a", "b", "c", "d", "e"].map(asking);
    assert_eq!(hand_out(&callers, &candidates), [Some(3), Some(2), Some(0), Some(1), None]);
}

#[test]
fn nobody_is_given_what_they_may_not_have() {
    let mut latin = candidate(9, Class::Fresh, 1);
    latin.skills = [name("latin")].into();
    let mut had = candidate(8, Class::Fresh, 2);
    had.barred = [person("ann")].into();
    let mut elsewhere = candidate(7, Class::Fresh, 3);
    elsewhere.queue = name("other");
    let candidates = [latin, had, elsewhere, candidate(0, Class::Fresh, 4)];
    let mut sue = asking("sue");
    sue.skills = [name("latin"), name("greek")].into();
    assert_eq!(hand_out(&[asking("ann"), asking("bob"), sue], &candidates), [Some(3), Some(1), Some(0)]);
}

#[test]
fn openings_of_one_item_go_to_different_people() {
    let mut two = candidate(0, Class::Fresh, 1);
    two.needs = 2;
    let callers = ["ann", "ann", "bob", "cem"].map(asking);
    assert_eq!(hand_out(&callers, &[two]), [Some(0), None, Some(0), None]);
}

#[test]
fn who_may_not_is_told_why() {
    let profile = |who: &str| Profile::unknown(person(who));
    let idle = |rest: &str, who: &str, load| eligible(&queue(rest), QueueState::Active, &profile(who), load);
    let none = Load::default();
    assert_eq!(idle("", "ann", none), Ok(()));
    assert_eq!(idle("people: [bob]", "ann", none), Err(Idle::NotEligible));
    assert_eq!(idle("skills: [latin]", "ann", none), Err(Idle::Skills));
    assert_eq!(idle("", "ann", Load { open: 1, completed: 7 }), Err(Idle::OpenLimit));
    assert_eq!(idle("per_person: {open: 2}", "ann", Load { open: 1, completed: 7 }), Ok(()));
    let limited = "per_person: {open: 5, total: 3}";
    assert_eq!(idle(limited, "ann", Load { open: 1, completed: 2 }), Err(Idle::TotalLimit));
    assert_eq!(idle(limited, "ann", Load { open: 1, completed: 1 }), Ok(()));
    let plain = queue("");
    assert_eq!(eligible(&plain, QueueState::Paused, &profile("ann"), none), Err(Idle::QueuePaused));
    let paused = Profile { state: QueueState::Paused, ..profile("ann") };
    assert_eq!(eligible(&plain, QueueState::Active, &paused, none), Err(Idle::PersonPaused));
}
