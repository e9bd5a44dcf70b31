//! Examples and properties of the fair queue.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn tenant(n: usize) -> TenantId {
    TenantId::parse(format!("t{n}")).unwrap()
}

fn queue(weights: &[u32]) -> FairQueue<usize> {
    let weights = weights.iter().enumerate().map(|(n, weight)| (tenant(n), *weight));
    FairQueue::with_weights(weights.collect())
}

fn fill(queue: &mut FairQueue<usize>, who: usize, count: usize) {
    for item in 0..count {
        queue.push(&tenant(who), item);
    }
}

/// The tenants in the order of service.
fn served(queue: &mut FairQueue<usize>, count: usize) -> Vec<usize> {
    (0..count)
        .filter_map(|_| queue.pop())
        .map(|(tenant, _)| tenant.as_str().trim_start_matches('t').parse().unwrap())
        .collect()
}

#[test]
fn single_item_precedes_other_tenants_backlog() {
    let mut queue = queue(&[]);
    fill(&mut queue, 0, 100_000);
    served(&mut queue, 500);
    fill(&mut queue, 1, 1);
    assert_eq!(served(&mut queue, 2), [1, 0]);
}

#[test]
fn two_backlogs_are_served_in_turn() {
    let mut queue = queue(&[]);
    fill(&mut queue, 0, 100);
    fill(&mut queue, 1, 100);
    assert_eq!(served(&mut queue, 6), [0, 1, 0, 1, 0, 1]);
}

#[test]
fn costly_item_delays_its_tenant() {
    let mut queue = queue(&[]);
    for (who, cost) in [(0, 3), (0, 3), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)] {
        queue.push(&tenant(who), cost);
    }
    let costs: Vec<usize> = std::iter::from_fn(|| queue.pop_costing(|_, _| true, |cost| *cost as u64))
        .map(|(_, cost)| cost)
        .collect();
    assert_eq!(costs, [3, 1, 1, 1, 3, 1, 1]);
}

#[test]
fn failing_head_blocks_only_its_tenant() {
    let mut queue = queue(&[]);
    fill(&mut queue, 0, 3);
    queue.push(&tenant(1), 9);
    queue.push(&tenant(1), 0);
    let mut small = || queue.pop_costing(|_, item| *item < 9, |_| 1);
    assert_eq!(small(), Some((tenant(0), 0)));
    assert_eq!(small(), Some((tenant(0), 1)));
    assert_eq!(small(), Some((tenant(0), 2)));
    assert_eq!(small(), None);
    assert_eq!(queue.pop(), Some((tenant(1), 9)));
}

#[test]
fn weight_three_gets_triple_service() {
    let mut queue = queue(&[1, 3]);
    fill(&mut queue, 0, 1_000);
    fill(&mut queue, 1, 1_000);
    let turns = served(&mut queue, 400);
    assert_eq!(turns.iter().filter(|who| **who == 1).count(), 300);
}

#[test]
fn returning_tenant_gains_no_service() {
    let mut queue = queue(&[4, 1]);
    fill(&mut queue, 0, 10_000);
    fill(&mut queue, 1, 1);
    let mut turns = 0;
    for _ in 0..1_000 {
        if served(&mut queue, 1) == [1] {
            turns += 1;
            fill(&mut queue, 1, 1);
        }
    }
    assert!((190..=210).contains(&turns), "{turns}");
}

#[test]
fn idle_tenants_leave_no_state() {
    let mut queue = queue(&[]);
    fill(&mut queue, 0, 10);
    for who in 1..1_000 {
        fill(&mut queue, who, 1);
        served(&mut queue, 2);
        fill(&mut queue, 0, 1);
    }
    assert!(queue.resting.len() <= 2, "{}", queue.resting.len());
    while queue.pop().is_some() {}
    assert!(queue.resting.is_empty() && queue.waiting.is_empty() && queue.order.is_empty());
    assert_eq!(queue.now, VirtualTime::default());
}

#[test]
fn skipped_tenant_keeps_its_start_tag() {
    let mut queue = queue(&[]);
    fill(&mut queue, 0, 10);
    fill(&mut queue, 1, 10);
    for _ in 0..5 {
        assert_eq!(queue.pop_where(|who| *who == tenant(1)).unwrap().0, tenant(1));
    }
    assert_eq!(served(&mut queue, 5), [0, 0, 0, 0, 0], "it catches up on the service it missed");
}

#[test]
fn drop_takes_from_longest_backlog() {
    let mut queue = queue(&[]);
    fill(&mut queue, 0, 2);
    fill(&mut queue, 1, 5);
    assert_eq!(queue.drop_from_longest(), Some(4));
    queue.retain_of(&tenant(0), |item| *item != 0);
    assert_eq!((queue.len(), queue.len_of(&tenant(0)), queue.len_of(&tenant(1))), (5, 1, 4));
    queue.retain_of(&tenant(0), |_| false);
    assert_eq!(queue.waiting_tenants().collect::<Vec<_>>(), [&tenant(1)]);
}

#[derive(Debug, Clone)]
enum FairQueueStep {
    Push(usize),
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<FairQueueStep>> {
    prop::collection::vec(
        prop_oneof![(0..5usize).prop_map(FairQueueStep::Push), Just(FairQueueStep::Pop)],
        0..400,
    )
}

proptest! {
    /// Work-conserving, nothing lost, first in first out within a tenant.
    #[test]
    fn every_item_comes_out_once_and_in_order(steps in steps(), weights in prop::collection::vec(1..9u32, 5)) {
        let mut queue = queue(&weights);
        let mut model: BTreeMap<TenantId, VecDeque<usize>> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                FairQueueStep::Push(who) => {
                    queue.push(&tenant(who), number);
                    model.entry(tenant(who)).or_default().push_back(number);
                }
                FairQueueStep::Pop => match queue.pop() {
                    Some((who, item)) => prop_assert_eq!(model.get_mut(&who).and_then(VecDeque::pop_front), Some(item)),
                    None => prop_assert!(model.values().all(VecDeque::is_empty)),
                },
            }
            prop_assert_eq!(queue.len(), model.values().map(VecDeque::len).sum::<usize>());
            prop_assert!(queue.resting.values().all(|finish| *finish > queue.now));
            prop_assert_eq!(queue.resting.len(), queue.rest_ends.len());
        }
    }

    /// While two tenants both have waiting items, their service per weight differs by at most one item of
    /// each.
    #[test]
    fn two_backlogged_tenants_stay_close(
        weights in prop::collection::vec(1..9u32, 5), before in steps(), turns in 1..300usize,
    ) {
        let mut queue = queue(&weights);
        for step in before {
            match step {
                FairQueueStep::Push(who) => queue.push(&tenant(who), 0),
                FairQueueStep::Pop => drop(queue.pop()),
            }
        }
        for who in 0..2 {
            fill(&mut queue, who, 400);
        }
        let turns = served(&mut queue, turns);
        let share = |who: usize| {
            turns.iter().filter(|turn| **turn == who).count() as f64 / f64::from(weights[who])
        };
        let bound = 1.0 / f64::from(weights[0]) + 1.0 / f64::from(weights[1]);
        prop_assert!((share(0) - share(1)).abs() <= bound + 1e-9, "{} {}", share(0), share(1));
    }

    /// No starvation: a tenant that arrives is served within one round of the others, according to their
    /// weights.
    #[test]
    fn a_newcomer_is_served_within_one_round(weights in prop::collection::vec(1..9u32, 5), served_before in 0..200usize) {
        let mut queue = queue(&weights);
        for who in 0..4 {
            fill(&mut queue, who, 1_000);
        }
        served(&mut queue, served_before);
        fill(&mut queue, 4, 1);
        let round: u32 = weights[..4].iter().map(|weight| weight + 1).sum();
        prop_assert!(served(&mut queue, round as usize + 1).contains(&4));
    }
}
