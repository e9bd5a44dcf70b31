//! Selection of the next assignment: which caller gets which opening.

use super::fixture::{name, person, queue};
use crate::assignment::QueueState;
use crate::assignment::select::{
    AskingPerson, OpeningCandidate, OpeningClass, PersonIdleReason, PersonLoad, PersonProfile, QueuePosition,
    check_eligibility, select_openings,
};

fn candidate(priority: i32, class: OpeningClass, position: i64) -> OpeningCandidate {
    OpeningCandidate {
        queue: name("q"),
        skills: [].into(),
        needs: 1,
        barred: [].into(),
        standing: QueuePosition { urgency: -priority, class, position },
    }
}

fn asking(who: &str) -> AskingPerson {
    AskingPerson { person: person(who), skills: [].into(), queues: [name("q")].into() }
}

#[test]
fn openings_sort_by_priority_class_and_age() {
    let candidates = [
        candidate(0, OpeningClass::Fresh, 1),
        candidate(0, OpeningClass::Fresh, 2),
        candidate(0, OpeningClass::Reopened, 9),
        candidate(5, OpeningClass::Fresh, 8),
    ];
    let callers = ["a", "b", "c", "d", "e"].map(asking);
    assert_eq!(select_openings(&callers, &candidates), [Some(3), Some(2), Some(0), Some(1), None]);
}

#[test]
fn barred_person_gets_no_opening() {
    let mut latin = candidate(9, OpeningClass::Fresh, 1);
    latin.skills = [name("latin")].into();
    let mut had = candidate(8, OpeningClass::Fresh, 2);
    had.barred = [person("ann")].into();
    let mut elsewhere = candidate(7, OpeningClass::Fresh, 3);
    elsewhere.queue = name("other");
    let candidates = [latin, had, elsewhere, candidate(0, OpeningClass::Fresh, 4)];
    let mut sue = asking("sue");
    sue.skills = [name("latin"), name("greek")].into();
    assert_eq!(
        select_openings(&[asking("ann"), asking("bob"), sue], &candidates),
        [Some(3), Some(1), Some(0)]
    );
}

#[test]
fn openings_of_item_go_to_distinct_persons() {
    let mut two = candidate(0, OpeningClass::Fresh, 1);
    two.needs = 2;
    let callers = ["ann", "ann", "bob", "cem"].map(asking);
    assert_eq!(select_openings(&callers, &[two]), [Some(0), None, Some(0), None]);
}

#[test]
fn ineligible_person_gets_the_reason() {
    let profile = |who: &str| PersonProfile::unknown(person(who));
    let idle = |rest: &str, who: &str, load| {
        check_eligibility(&queue(rest), QueueState::Active, &profile(who), load)
    };
    let none = PersonLoad::default();
    assert_eq!(idle("", "ann", none), Ok(()));
    assert_eq!(idle("people: [bob]", "ann", none), Err(PersonIdleReason::NotEligible));
    assert_eq!(idle("skills: [latin]", "ann", none), Err(PersonIdleReason::Skills));
    assert_eq!(idle("", "ann", PersonLoad { open: 1, completed: 7 }), Err(PersonIdleReason::OpenLimit));
    assert_eq!(idle("per_person: {open: 2}", "ann", PersonLoad { open: 1, completed: 7 }), Ok(()));
    let limited = "per_person: {open: 5, total: 3}";
    assert_eq!(idle(limited, "ann", PersonLoad { open: 1, completed: 2 }), Err(PersonIdleReason::TotalLimit));
    assert_eq!(idle(limited, "ann", PersonLoad { open: 1, completed: 1 }), Ok(()));
    let plain = queue("");
    assert_eq!(
        check_eligibility(&plain, QueueState::Paused, &profile("ann"), none),
        Err(PersonIdleReason::QueuePaused)
    );
    let paused = PersonProfile { state: QueueState::Paused, ..profile("ann") };
    assert_eq!(
        check_eligibility(&plain, QueueState::Active, &paused, none),
        Err(PersonIdleReason::PersonPaused)
    );
}
