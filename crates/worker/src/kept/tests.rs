//! Tests of the inbox: order of visits, retries and hand-back.

use millstream_core::id::{ExecutionId, TenantId};
use millstream_core::lane::Lane;

use super::*;

fn key(id: &str) -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
}

fn entry(id: &str) -> Option<EntryId> {
    Some(EntryId { lane: Lane::of(&TenantId::default_tenant()), id: id.to_owned() })
}

fn ring(kept: &mut Kept, execution: &str, id: &str) {
    kept.arrive(key(execution), entry(id), Suspicion::None);
}

#[test]
fn doorbells_of_one_execution_are_one_visit() {
    let mut kept = Kept::default();
    ring(&mut kept, "a", "1");
    ring(&mut kept, "a", "2");
    ring(&mut kept, "b", "3");
    let visits = kept.take(10, Instant::now());
    assert_eq!(visits.iter().map(|visit| visit.entries.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(kept.take(10, Instant::now()).is_empty());
}

#[test]
fn a_doorbell_that_arrives_during_a_visit_is_not_answered_by_it() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    ring(&mut kept, "a", "1");
    let visit = kept.take(1, now).remove(0);
    ring(&mut kept, "a", "2");
    assert!(kept.take(1, now).is_empty(), "visited twice at once");
    kept.ended(visit, End::Answered, now, 0.5);
    let visit = kept.take(1, now).remove(0);
    assert_eq!(visit.entries, [entry("2").unwrap()]);
    kept.ended(visit, End::Answered, now, 0.5);
    assert_eq!(kept.len(), 0);
}

#[test]
fn a_busy_execution_is_retried_once_for_all_its_doorbells_and_others_go_on() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    ring(&mut kept, "a", "1");
    let visit = kept.take(1, now).remove(0);
    kept.ended(visit, End::Kept(Why::Busy), now, 1.0);
    ring(&mut kept, "a", "2");
    ring(&mut kept, "b", "3");
    let visits = kept.take(10, now);
    assert_eq!(visits.len(), 1);
    assert_eq!(visits[0].execution, key("b"));
    let later = kept.next().unwrap();
    assert!(later <= now + Duration::from_millis(50));
    let visits = kept.take(10, later);
    assert_eq!(visits[0].entries.len(), 2);
    assert_eq!(visits[0].tries, 1);
}

#[test]
fn waits_grow_and_are_capped() {
    assert_eq!(wait(&Why::Busy, 0, 1.0), Duration::from_millis(1));
    assert_eq!(wait(&Why::Busy, 30, 1.0), Duration::from_millis(50));
    assert_eq!(wait(&Why::Unavailable, 30, 1.0), Duration::from_secs(5));
}

fn cut(attempt: Attempt) -> Suspicion {
    Suspicion::Alone { why: "it panicked".to_owned(), attempt }
}

#[test]
fn a_suspicion_survives_a_visit_that_was_not_made() {
    for suspicion in [Suspicion::Redelivered, cut(Attempt::ToCount), cut(Attempt::Counted)] {
        let (mut kept, now) = (Kept::default(), Instant::now());
        kept.arrive(key("a"), entry("1"), suspicion.clone());
        let visit = kept.take(1, now).remove(0);
        assert_eq!(visit.suspicion, suspicion);
        kept.ended(visit, End::Kept(Why::Busy), now, 1.0);
        let visit = kept.take(1, kept.next().unwrap()).remove(0);
        assert_eq!(visit.suspicion, suspicion);
    }
}

#[test]
fn an_attempt_that_was_counted_and_not_made_is_not_counted_again() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    kept.arrive(key("a"), entry("1"), cut(Attempt::ToCount));
    let visit = kept.take(1, now).remove(0);
    kept.ended(visit, End::Kept(Why::Unfinished { why: "it panicked".to_owned() }), now, 1.0);
    let visit = kept.take(1, kept.next().unwrap()).remove(0);
    assert_eq!(visit.suspicion, cut(Attempt::Counted));
}

#[test]
fn suspects_are_visited_one_at_a_time_and_in_turn_with_the_others() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    for (execution, id) in [("a", "1"), ("b", "2")] {
        kept.arrive(key(execution), entry(id), cut(Attempt::ToCount));
    }
    ring(&mut kept, "c", "3");
    kept.arrive(key("d"), entry("4"), Suspicion::Redelivered);
    let names = |visits: &[Visit]| -> Vec<String> {
        visits.iter().map(|visit| visit.execution.execution.to_string()).collect()
    };
    let company = kept.take(10, now);
    assert_eq!(names(&company), ["c", "d"]);
    let first = kept.take(10, now);
    assert_eq!(names(&first), ["a"]);
    assert!(kept.take(10, now).is_empty(), "two suspects at once");
    ring(&mut kept, "e", "5");
    assert_eq!(names(&kept.take(10, now)), ["e"], "a suspect delays no other execution");
    kept.ended(first.into_iter().next().unwrap(), End::Answered, now, 1.0);
    assert_eq!(names(&kept.take(10, now)), ["b"]);
}

#[test]
fn an_entry_is_held_once_however_often_it_is_delivered() {
    let mut kept = Kept::default();
    ring(&mut kept, "a", "1");
    kept.arrive(key("a"), entry("1"), Suspicion::Redelivered);
    let visit = kept.take(1, Instant::now()).remove(0);
    assert_eq!((visit.entries.len(), visit.suspicion), (1, Suspicion::None));
}

fn of(tenant: &str, id: usize) -> (ExecutionKey, Option<EntryId>) {
    let tenant = TenantId::parse(tenant).unwrap();
    let entry = EntryId { lane: Lane::of(&tenant), id: format!("{tenant}-{id}") };
    (ExecutionKey { tenant, execution: ExecutionId::parse(format!("x{id}")).unwrap() }, Some(entry))
}

fn backlog(kept: &mut Kept, tenant: &str, count: usize) {
    for id in 0..count {
        let (execution, entry) = of(tenant, id);
        kept.arrive(execution, entry, Suspicion::None);
    }
}

fn tenants(visits: &[Visit]) -> Vec<&str> {
    visits.iter().map(|visit| visit.execution.tenant.as_str()).collect()
}

#[test]
fn a_backlog_of_one_tenant_does_not_stand_in_front_of_another() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    backlog(&mut kept, "busy", 1_000);
    kept.take(10, now);
    backlog(&mut kept, "quiet", 1);
    assert!(tenants(&kept.take(2, now)).contains(&"quiet"));
}

#[test]
fn tenants_are_visited_in_the_proportion_of_their_weights() {
    let weights = [(TenantId::parse("heavy").unwrap(), 3)].into_iter().collect();
    let (mut kept, now) = (Kept::with_weights(&weights), Instant::now());
    backlog(&mut kept, "light", 100);
    backlog(&mut kept, "heavy", 100);
    let visits = kept.take(40, now);
    assert_eq!(tenants(&visits).iter().filter(|tenant| **tenant == "heavy").count(), 30);
}

#[test]
fn newcomers_are_those_of_whom_nothing_is_visited() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    backlog(&mut kept, "busy", 20);
    let under_way = kept.take(5, now);
    assert!(kept.take_newcomers(10, now, |_| true).is_empty());
    backlog(&mut kept, "quiet", 2);
    assert_eq!(tenants(&kept.take_newcomers(10, now, |_| true)), ["quiet", "quiet"]);
    assert!(kept.take_newcomers(10, now, |_| true).is_empty());
    for visit in under_way {
        kept.ended(visit, End::Answered, now, 0.5);
    }
    assert_eq!(kept.take_newcomers(10, now, |_| true).len(), 10, "nothing of it is visited now");
}

#[test]
fn few_executions_do_not_share_the_visit_of_a_backlog() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    backlog(&mut kept, "quiet", 2);
    assert!(kept.take_beside_backlog(10, now).is_empty(), "there is no backlog");
    backlog(&mut kept, "busy", 300);
    assert_eq!(tenants(&kept.take_beside_backlog(10, now)), ["quiet", "quiet"]);
    backlog(&mut kept, "quiet", 4);
    assert!(kept.take_beside_backlog(10, now).is_empty(), "the tenant is being visited");
    assert!(tenants(&kept.take(4, now)).contains(&"quiet"), "it takes turns with the backlog then");
}

#[test]
fn a_tenant_is_full_until_enough_of_it_is_answered() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    backlog(&mut kept, "busy", 50);
    let busy = [TenantId::parse("busy").unwrap()].into();
    assert_eq!(kept.full_tenants(100, 10), busy);
    for visit in kept.take(10, now) {
        kept.ended(visit, End::Answered, now, 0.5);
    }
    assert!(kept.full_tenants(100, 10).is_empty());
    kept.hand_back();
    assert!(kept.full_tenants(0, 0).is_empty());
}

#[test]
fn everything_held_is_handed_back() {
    let (mut kept, now) = (Kept::default(), Instant::now());
    for (execution, id) in [("a", "1"), ("b", "2"), ("c", "3")] {
        ring(&mut kept, execution, id);
    }
    let visit = kept.take(1, now).remove(0);
    kept.ended(visit, End::Kept(Why::Unavailable), now, 1.0);
    let back = kept.hand_back();
    assert_eq!(back.iter().map(|(_, entries)| entries.len()).sum::<usize>(), 3);
    assert_eq!(kept.len(), 0);
}
