//! Which submissions the next commit takes.

use super::*;

const CAP: SubmissionSize = SubmissionSize { items: 1_000, bytes: 8 * 1024 * 1024 };

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// A queue with `count` submissions of `items` items per tenant, in this order. They are numbered.
fn queue(arrivals: &[(&str, usize, usize)]) -> CommitQueue<usize> {
    let mut queue = CommitQueue::with_weights(TenantWeights::default());
    let all = arrivals.iter().flat_map(|(name, count, items)| (0..*count).map(move |_| (name, *items)));
    for (number, (name, items)) in all.enumerate() {
        queue.push_submission(&tenant(name), SubmissionSize { items, bytes: items * 512 }, number);
    }
    queue
}

fn has(batch: &CommitBatch<usize>, name: &str) -> bool {
    batch.tenants.contains(&tenant(name))
}

#[test]
fn fair_queue_serves_quiet_tenant_next() {
    let mut queue = queue(&[("noisy", 100, 10), ("quiet", 1, 1)]);
    let next = queue.take_batch(CAP).unwrap();
    assert!(has(&next, "quiet") && has(&next, "noisy"));
    assert!(!next.is_bulk(), "a commit that is shared stays small: {:?}", next.size);
}

#[test]
fn bulk_and_small_commits_are_separate() {
    let mut queue = queue(&[("noisy", 100, 1_000), ("quiet", 3, 1)]);
    let bulk = queue.take_batch(CAP).unwrap();
    assert_eq!((bulk.size.items, bulk.tenants), (1_000, vec![tenant("noisy")]));
    let small = queue.take_batch(CAP).unwrap();
    assert_eq!((small.size.items, small.tenants), (3, vec![tenant("quiet")]));
}

#[test]
fn single_tenant_fills_commit_cap() {
    let mut queue = queue(&[("only", 1_500, 1)]);
    let sizes: Vec<usize> =
        std::iter::from_fn(|| queue.take_batch(CAP)).map(|batch| batch.submissions.len()).collect();
    assert_eq!(sizes, [1_000, 500]);
    assert_eq!(queue.item_count(), 0);
}

#[test]
fn tenant_submissions_keep_arrival_order() {
    let mut queue = queue(&[("a", 40, 30), ("b", 40, 7), ("a", 40, 400), ("a", 5, 1)]);
    let mut left: Vec<usize> = Vec::new();
    while let Some(batch) = queue.take_batch(CAP) {
        left.extend(batch.submissions);
    }
    assert_eq!(left.len(), 125);
    let of_b = |number: &usize| (40..80).contains(number);
    assert!(left.iter().filter(|number| of_b(number)).is_sorted());
    assert!(left.iter().filter(|number| !of_b(number)).is_sorted());
}

#[test]
fn bulk_submission_does_not_starve() {
    let mut queue = queue(&[("bulk", 2, 1_000)]);
    let bulk = tenant("bulk");
    // 1,000 items of the other tenant equal one turn of bulk.
    let is_served = (0..12).any(|_| {
        for number in 0..100 {
            queue.push_submission(&tenant("steady"), SubmissionSize { items: 1, bytes: 512 }, number);
        }
        queue.take_batch(CAP).unwrap();
        queue.waiting.len_of(&bulk) == 0
    });
    assert!(is_served);
}

#[test]
fn express_commit_takes_small_submissions() {
    let mut queue = queue(&[("noisy", 5, 1), ("quiet", 100, 1), ("large", 1, 65)]);
    let express = queue.take_express(|who| *who != tenant("noisy")).unwrap();
    assert_eq!((express.size.items, express.tenants), (64, vec![tenant("quiet")]));
    let mut rest = CommitQueue::with_weights(TenantWeights::default());
    rest.push_submission(&tenant("large"), SubmissionSize { items: 65, bytes: 1 }, 0);
    assert!(rest.take_express(|_| true).is_none());
}

#[test]
fn oversized_submission_gets_own_commit() {
    let mut queue = queue(&[("a", 1, 5_000), ("a", 1, 1)]);
    let sizes: Vec<usize> =
        std::iter::from_fn(|| queue.take_batch(CAP)).map(|batch| batch.size.items).collect();
    assert_eq!(sizes, [5_000, 1]);
}
