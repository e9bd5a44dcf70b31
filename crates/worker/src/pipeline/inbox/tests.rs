//! Tests of the inbox: order of visits, retries and hand-back.

use millstream_model::id::{ExecutionId, TenantId};
use millstream_model::lane::Lane;

use super::*;

fn key(id: &str) -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
}

fn entry(id: &str) -> Option<StreamEntryId> {
    Some(StreamEntryId { lane: Lane::of_tenant(&TenantId::default_tenant()), id: id.to_owned() })
}

fn ring(kept: &mut Inbox, execution: &str, id: &str) {
    kept.enqueue_delivery(key(execution), entry(id), VisitSuspicion::None);
}

#[test]
fn inbox_joins_doorbells_of_one_execution() {
    let mut kept = Inbox::default();
    ring(&mut kept, "a", "1");
    ring(&mut kept, "a", "2");
    ring(&mut kept, "b", "3");
    let visits = kept.take_visits(10, Instant::now());
    assert_eq!(visits.iter().map(|visit| visit.entries.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(kept.take_visits(10, Instant::now()).is_empty());
}

#[test]
fn visit_leaves_later_doorbells() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    ring(&mut kept, "a", "1");
    let visit = kept.take_visits(1, now).remove(0);
    ring(&mut kept, "a", "2");
    assert!(kept.take_visits(1, now).is_empty(), "visited twice at once");
    kept.end_visit(visit, VisitOutcome::Answered, now, 0.5);
    let visit = kept.take_visits(1, now).remove(0);
    assert_eq!(visit.entries, [entry("2").unwrap()]);
    kept.end_visit(visit, VisitOutcome::Answered, now, 0.5);
    assert_eq!(kept.len(), 0);
}

#[test]
fn busy_execution_is_retried_once() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    ring(&mut kept, "a", "1");
    let visit = kept.take_visits(1, now).remove(0);
    kept.end_visit(visit, VisitOutcome::Kept(RetryReason::Busy), now, 1.0);
    ring(&mut kept, "a", "2");
    ring(&mut kept, "b", "3");
    let visits = kept.take_visits(10, now);
    assert_eq!(visits.len(), 1);
    assert_eq!(visits[0].execution, key("b"));
    let later = kept.next_retry().unwrap();
    assert!(later <= now + Duration::from_millis(50));
    let visits = kept.take_visits(10, later);
    assert_eq!(visits[0].entries.len(), 2);
    assert_eq!(visits[0].tries, 1);
}

#[test]
fn decided_part_of_mailbox_is_continued_at_once() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    kept.enqueue_delivery(key("a"), entry("1"), VisitSuspicion::Redelivered);
    for _ in 0..3 {
        let visit = kept.take_visits(1, now).remove(0);
        kept.end_visit(visit, VisitOutcome::Kept(RetryReason::Unavailable), now, 1.0);
        let later = kept.next_retry().unwrap();
        let visit = kept.take_visits(1, later).remove(0);
        kept.end_visit(visit, VisitOutcome::Kept(RetryReason::Unrung), now, 1.0);
        assert_eq!(kept.next_retry(), Some(now), "no back-off after progress");
    }
    let visit = kept.take_visits(1, now).remove(0);
    assert_eq!((visit.tries, visit.suspicion), (0, VisitSuspicion::None));
    assert_eq!(visit.entries, [entry("1").unwrap()], "still held");
}

#[test]
fn retry_backoff_grows_to_cap() {
    assert_eq!(retry_backoff(&RetryReason::Busy, 0, 1.0), Duration::from_millis(1));
    assert_eq!(retry_backoff(&RetryReason::Busy, 30, 1.0), Duration::from_millis(50));
    assert_eq!(retry_backoff(&RetryReason::Unavailable, 30, 1.0), Duration::from_secs(5));
}

fn cut(attempt: SuspectAttempt) -> VisitSuspicion {
    VisitSuspicion::Alone { why: "it panicked".to_owned(), attempt }
}

#[test]
fn suspicion_survives_skipped_visit() {
    for suspicion in [VisitSuspicion::Redelivered, cut(SuspectAttempt::ToCount), cut(SuspectAttempt::Counted)]
    {
        let (mut kept, now) = (Inbox::default(), Instant::now());
        kept.enqueue_delivery(key("a"), entry("1"), suspicion.clone());
        let visit = kept.take_visits(1, now).remove(0);
        assert_eq!(visit.suspicion, suspicion);
        kept.end_visit(visit, VisitOutcome::Kept(RetryReason::Busy), now, 1.0);
        let visit = kept.take_visits(1, kept.next_retry().unwrap()).remove(0);
        assert_eq!(visit.suspicion, suspicion);
    }
}

#[test]
fn counted_attempt_is_not_counted_again() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    kept.enqueue_delivery(key("a"), entry("1"), cut(SuspectAttempt::ToCount));
    let visit = kept.take_visits(1, now).remove(0);
    kept.end_visit(
        visit,
        VisitOutcome::Kept(RetryReason::Unfinished { why: "it panicked".to_owned() }),
        now,
        1.0,
    );
    let visit = kept.take_visits(1, kept.next_retry().unwrap()).remove(0);
    assert_eq!(visit.suspicion, cut(SuspectAttempt::Counted));
}

#[test]
fn suspects_alternate_with_other_visits() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    for (execution, id) in [("a", "1"), ("b", "2")] {
        kept.enqueue_delivery(key(execution), entry(id), cut(SuspectAttempt::ToCount));
    }
    ring(&mut kept, "c", "3");
    kept.enqueue_delivery(key("d"), entry("4"), VisitSuspicion::Redelivered);
    let names = |visits: &[MailboxVisit]| -> Vec<String> {
        visits.iter().map(|visit| visit.execution.execution.to_string()).collect()
    };
    let company = kept.take_visits(10, now);
    assert_eq!(names(&company), ["c", "d"]);
    let first = kept.take_visits(10, now);
    assert_eq!(names(&first), ["a"]);
    assert!(kept.take_visits(10, now).is_empty(), "two suspects at once");
    ring(&mut kept, "e", "5");
    assert_eq!(names(&kept.take_visits(10, now)), ["e"], "a suspect delays no other execution");
    kept.end_visit(first.into_iter().next().unwrap(), VisitOutcome::Answered, now, 1.0);
    assert_eq!(names(&kept.take_visits(10, now)), ["b"]);
}

#[test]
fn redelivered_entry_is_held_once() {
    let mut kept = Inbox::default();
    ring(&mut kept, "a", "1");
    kept.enqueue_delivery(key("a"), entry("1"), VisitSuspicion::Redelivered);
    let visit = kept.take_visits(1, Instant::now()).remove(0);
    assert_eq!((visit.entries.len(), visit.suspicion), (1, VisitSuspicion::None));
}

fn of(tenant: &str, id: usize) -> (ExecutionKey, Option<StreamEntryId>) {
    let tenant = TenantId::parse(tenant).unwrap();
    let entry = StreamEntryId { lane: Lane::of_tenant(&tenant), id: format!("{tenant}-{id}") };
    (ExecutionKey { tenant, execution: ExecutionId::parse(format!("x{id}")).unwrap() }, Some(entry))
}

fn backlog(kept: &mut Inbox, tenant: &str, count: usize) {
    for id in 0..count {
        let (execution, entry) = of(tenant, id);
        kept.enqueue_delivery(execution, entry, VisitSuspicion::None);
    }
}

fn tenants(visits: &[MailboxVisit]) -> Vec<&str> {
    visits.iter().map(|visit| visit.execution.tenant.as_str()).collect()
}

#[test]
fn tenant_backlog_does_not_delay_others() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    backlog(&mut kept, "busy", 1_000);
    kept.take_visits(10, now);
    backlog(&mut kept, "quiet", 1);
    assert!(tenants(&kept.take_visits(2, now)).contains(&"quiet"));
}

#[test]
fn visits_follow_tenant_weights() {
    let weights = [(TenantId::parse("heavy").unwrap(), 3)].into_iter().collect();
    let (mut kept, now) = (Inbox::with_weights(&weights), Instant::now());
    backlog(&mut kept, "light", 100);
    backlog(&mut kept, "heavy", 100);
    let visits = kept.take_visits(40, now);
    assert_eq!(tenants(&visits).iter().filter(|tenant| **tenant == "heavy").count(), 30);
}

#[test]
fn newcomers_have_no_running_visit() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    backlog(&mut kept, "busy", 20);
    let under_way = kept.take_visits(5, now);
    assert!(kept.take_newcomers(10, now, |_| true).is_empty());
    backlog(&mut kept, "quiet", 2);
    assert_eq!(tenants(&kept.take_newcomers(10, now, |_| true)), ["quiet", "quiet"]);
    assert!(kept.take_newcomers(10, now, |_| true).is_empty());
    for visit in under_way {
        kept.end_visit(visit, VisitOutcome::Answered, now, 0.5);
    }
    assert_eq!(kept.take_newcomers(10, now, |_| true).len(), 10, "nothing of it is visited now");
}

#[test]
fn small_tenant_avoids_backlog_visit() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    backlog(&mut kept, "quiet", 2);
    assert!(kept.take_beside_backlog(10, now).is_empty(), "there is no backlog");
    backlog(&mut kept, "busy", 300);
    assert_eq!(tenants(&kept.take_beside_backlog(10, now)), ["quiet", "quiet"]);
    backlog(&mut kept, "quiet", 4);
    assert!(kept.take_beside_backlog(10, now).is_empty(), "the tenant is being visited");
    assert!(tenants(&kept.take_visits(4, now)).contains(&"quiet"), "it takes turns with the backlog then");
}

#[test]
fn tenant_stays_full_until_answered() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    backlog(&mut kept, "busy", 50);
    let busy = [TenantId::parse("busy").unwrap()].into();
    assert_eq!(kept.full_tenants(100, 10), busy);
    for visit in kept.take_visits(10, now) {
        kept.end_visit(visit, VisitOutcome::Answered, now, 0.5);
    }
    assert!(kept.full_tenants(100, 10).is_empty());
    kept.drain_for_hand_back();
    assert!(kept.full_tenants(0, 0).is_empty());
}

#[test]
fn hand_back_returns_all_doorbells() {
    let (mut kept, now) = (Inbox::default(), Instant::now());
    for (execution, id) in [("a", "1"), ("b", "2"), ("c", "3")] {
        ring(&mut kept, execution, id);
    }
    let visit = kept.take_visits(1, now).remove(0);
    kept.end_visit(visit, VisitOutcome::Kept(RetryReason::Unavailable), now, 1.0);
    let back = kept.drain_for_hand_back();
    assert_eq!(back.iter().map(|(_, entries)| entries.len()).sum::<usize>(), 3);
    assert_eq!(kept.len(), 0);
}
