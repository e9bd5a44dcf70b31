//! Leases: fencing, expiry, renewal.

use std::collections::BTreeSet;

use millstream_model::id::Epoch;
use millstream_model::status::ActionStatus;
use millstream_store::action_store::{Lease, LeaseHeartbeat, LeasePulse, LeasedAction, SettleVerdict};
use millstream_store::execution_store::LeaseGrant;

use crate::ConformanceBench;
use crate::commit_builder::{ready, waiting};
use crate::fixture::{HOUR, SHORT, execution, grant, grant_for, name, pausing, raw, worker};
use crate::settle::{fail, retry, settle, succeed};

async fn lease(bench: &ConformanceBench, by: &str, grant: LeaseGrant) -> Vec<LeasedAction> {
    let now = bench.now().await;
    bench.stores.actions.lease(&worker(by), &grant, now).await.unwrap()
}

/// For each lease of `w1`, whether it is still held.
async fn renew(bench: &ConformanceBench, leases: &[Lease], grant: LeaseGrant) -> Vec<bool> {
    let beats: Vec<LeaseHeartbeat> = leases.iter().cloned().map(LeaseHeartbeat::from).collect();
    let now = bench.now().await;
    let pulses = bench.stores.actions.renew_leases(&beats, &worker("w1"), &grant, now).await.unwrap();
    pulses.into_iter().map(|pulse| matches!(pulse, LeasePulse::Held { .. })).collect()
}

/// An action leased for a moment by `w1`, then by `w2`: the first lease is void.
async fn passed_on(bench: &ConformanceBench) -> (LeasedAction, LeasedAction) {
    let key = execution("one");
    let short = grant_for(1, SHORT);
    let (_, _, mut done) = bench.acting(&key, &[ready("charge")], short).await;
    let old = done.leased.remove(0);
    bench.passed(old.lease_until).await;
    let new = lease(bench, "w2", grant(1)).await.remove(0);
    (old, new)
}

pub async fn only_due_actions_are_leased(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("now"), ready("later"), waiting("never", &["later"])];
    let (_, _, done) = bench.acting(&key, &actions, grant(2)).await;
    let now = bench.now().await;
    let batch = vec![retry(&done.leased[0], now), retry(&done.leased[1], now.plus(HOUR))];
    settle(&bench, batch, grant(0)).await;
    let leased = lease(&bench, "w2", grant(10)).await;
    let names: Vec<_> = leased.iter().map(|action| action.lease.key.action.as_str()).collect();
    assert_eq!(names, ["now"]);
    assert!(lease(&bench, "w2", grant(10)).await.is_empty());
}

pub async fn leases_take_longest_due_within_slots(bench: ConformanceBench) {
    let key = execution("one");
    let actions = [ready("a"), ready("b"), ready("c"), ready("d")];
    let (_, _, done) = bench.acting(&key, &actions, grant(4)).await;
    let now = bench.now().await;
    let batch =
        (done.leased.iter().zip([2, 4, 1, 3])).map(|(action, age)| retry(action, now.minus(HOUR * age)));
    settle(&bench, batch.collect(), grant(0)).await;
    assert!(lease(&bench, "w2", grant(0)).await.is_empty());
    let mut order = Vec::new();
    for slots in [1, 2, 5] {
        let leased = lease(&bench, "w2", grant(slots)).await;
        assert!(leased.len() <= slots);
        let mut names: Vec<_> = leased.iter().map(|action| action.lease.key.action.to_string()).collect();
        names.sort();
        order.push(names);
    }
    assert_eq!(order, [vec!["b"], vec!["a", "d"], vec!["c"]]);
}

pub async fn lease_raises_epoch_and_attempt(bench: ConformanceBench) {
    let key = execution("one");
    bench.acting(&key, &[ready("charge")], grant(0)).await;
    for n in 1..=3 {
        let leased = lease(&bench, "w2", grant(1)).await.remove(0);
        assert_eq!((leased.lease.epoch, leased.attempt), (Epoch(n), i32::try_from(n).unwrap()));
        assert_eq!(leased.input, Some(raw(r#"{"noop":  1.50}"#)));
        let now = bench.now().await;
        assert_eq!(settle(&bench, vec![retry(&leased, now)], grant(0)).await.unleased, 0);
    }
}

pub async fn expired_lease_passes_with_higher_epoch(bench: ConformanceBench) {
    let (old, new) = passed_on(&bench).await;
    assert_eq!(new.lease.key, old.lease.key);
    assert_eq!((new.lease.epoch, new.attempt), (Epoch(2), 2));
    let view = bench.action(&execution("one"), "charge").await;
    assert_eq!((view.worker_id, view.lease_until), (Some(worker("w2")), Some(new.lease_until)));
}

pub async fn live_lease_is_not_taken_over(bench: ConformanceBench) {
    bench.acting(&execution("one"), &[ready("charge")], grant(1)).await;
    assert!(lease(&bench, "w2", grant(5)).await.is_empty());
}

pub async fn paused_execution_still_leases_actions(bench: ConformanceBench) {
    let key = execution("one");
    bench.acting(&key, &[ready("charge")], grant(0)).await;
    let pause = [pausing(&key, "broken")];
    bench.stores.interventions.pause_executions(&pause, bench.now().await).await.unwrap();
    assert_eq!(lease(&bench, "w2", grant(5)).await.len(), 1);
}

pub async fn action_is_leased_to_one_caller(bench: ConformanceBench) {
    let names: Vec<String> = (0..8).map(|n| format!("a{n}")).collect();
    let actions: Vec<_> = names.iter().map(|name| ready(name)).collect();
    for round in 0..12 {
        bench.acting(&execution(&format!("e{round}")), &actions, grant(0)).await;
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let bench = bench.clone();
                tokio::spawn(async move { lease(&bench, &format!("w{n}"), grant(3)).await })
            })
            .collect();
        let (mut seen, mut total) = (BTreeSet::new(), 0);
        for task in tasks {
            for leased in task.await.unwrap() {
                total += 1;
                seen.insert(leased.lease.key);
            }
        }
        // Callers may skip rows that another one is leasing; the next call returns the rest.
        let rest = lease(&bench, "rest", grant(100)).await;
        total += rest.len();
        seen.extend(rest.into_iter().map(|leased| leased.lease.key));
        assert_eq!((total, seen.len()), (8, 8), "round {round}");
    }
}

pub async fn renewed_lease_lives_longer(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("charge")], grant_for(1, SHORT)).await;
    let held = &done.leased[0];
    let leases = [held.lease.clone()];
    let renewed = renew(&bench, &leases, grant(0)).await;
    assert_eq!(renewed, [true], "also one that has run out and was not taken over");
    bench.passed(held.lease_until).await;
    assert!(lease(&bench, "w2", grant(5)).await.is_empty());
    let view = bench.action(&key, "charge").await;
    assert!(view.lease_until > Some(held.lease_until));
    assert_eq!((view.epoch, view.attempts), (Epoch(1), 1));
}

pub async fn expired_untaken_lease_can_settle(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("charge")], grant_for(1, SHORT)).await;
    bench.passed(done.leased[0].lease_until).await;
    let settled = settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    assert!(matches!(settled.verdicts[..], [SettleVerdict::Recorded { .. }]));
}

pub async fn stale_epoch_cannot_renew_lease(bench: ConformanceBench) {
    let (old, new) = passed_on(&bench).await;
    let leases = [old.lease, new.lease.clone(), Lease { epoch: Epoch(9), ..new.lease }];
    let renewed = renew(&bench, &leases, grant(0)).await;
    assert_eq!(renewed, [false, true, false]);
}

pub async fn stale_epoch_does_not_extend_current_lease(bench: ConformanceBench) {
    let (old, new) = passed_on(&bench).await;
    let longer = grant_for(0, HOUR * 24);
    let renewed = renew(&bench, &[old.lease], longer).await;
    assert_eq!(renewed, [false]);
    let view = bench.action(&execution("one"), "charge").await;
    assert_eq!(view.lease_until, Some(new.lease_until));
    assert_eq!((view.worker_id, view.epoch), (Some(worker("w2")), new.lease.epoch));
}

pub async fn stale_epoch_cannot_record_input(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a"), waiting("b", &["a"])], grant(1)).await;
    let short = grant_for(1, SHORT);
    let old = settle(&bench, vec![succeed(&done.leased[0], "1")], short).await.leased.remove(0);
    assert_eq!((old.input, old.lease.key.action.clone()), (None, name("b")));
    bench.passed(old.lease_until).await;
    let new = lease(&bench, "w2", grant(1)).await.remove(0);
    let inputs = [(old.lease, raw("1")), (new.lease.clone(), raw("2.0"))];
    assert_eq!(bench.stores.actions.record_inputs(&inputs).await.unwrap(), [false, true]);
    assert_eq!(bench.action(&key, "b").await.input, Some(raw("2.0")));
    assert_eq!(bench.stores.actions.record_inputs(&[(new.lease, raw("3"))]).await.unwrap(), [true]);
    assert_eq!(bench.action(&key, "b").await.input, Some(raw("2.0")), "an input is recorded once");
}

pub async fn recorded_input_is_in_next_lease(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("a"), waiting("b", &["a"])], grant(1)).await;
    let freed = settle(&bench, vec![succeed(&done.leased[0], "1.0")], grant(1)).await.leased.remove(0);
    bench.stores.actions.record_inputs(&[(freed.lease.clone(), raw("{\"x\": 1}"))]).await.unwrap();
    let now = bench.now().await;
    settle(&bench, vec![retry(&freed, now)], grant(0)).await;
    let again = lease(&bench, "w2", grant(1)).await.remove(0);
    assert_eq!((again.input, again.attempt), (Some(raw("{\"x\": 1}")), 2));
    assert_eq!(again.results, [(name("a"), raw("1.0"))].into());
}

pub async fn stale_epoch_cannot_settle(bench: ConformanceBench) {
    let (old, new) = passed_on(&bench).await;
    let now = bench.now().await;
    for stale in [succeed(&old, "1"), retry(&old, now), fail(&old, "no")] {
        let settled = settle(&bench, vec![stale], grant(0)).await;
        assert_eq!(settled.verdicts, [SettleVerdict::Stale]);
    }
    let view = bench.action(&execution("one"), "charge").await;
    assert_eq!((view.status, view.epoch, view.error), (ActionStatus::Leased, new.lease.epoch, None));
    assert_eq!(bench.execution(&execution("one")).await.paused_reason, None);
    let settled = settle(&bench, vec![succeed(&new, "1")], grant(0)).await;
    assert!(matches!(settled.verdicts[..], [SettleVerdict::Recorded { .. }]));
}

pub async fn stale_epoch_cannot_release(bench: ConformanceBench) {
    let (old, new) = passed_on(&bench).await;
    bench.stores.actions.release_leases(&[old.lease], bench.now().await).await.unwrap();
    let view = bench.action(&execution("one"), "charge").await;
    assert_eq!((view.status, view.attempts, view.epoch), (ActionStatus::Leased, 2, new.lease.epoch));
}

pub async fn released_action_is_due_without_attempt(bench: ConformanceBench) {
    let key = execution("one");
    let (_, _, done) = bench.acting(&key, &[ready("charge")], grant(1)).await;
    let old = &done.leased[0];
    bench.stores.actions.release_leases(std::slice::from_ref(&old.lease), bench.now().await).await.unwrap();
    let view = bench.action(&key, "charge").await;
    assert_eq!((view.status, view.attempts, view.lease_until), (ActionStatus::Ready, 0, None));
    let settled = settle(&bench, vec![succeed(old, "1")], grant(0)).await;
    assert_eq!(settled.verdicts, [SettleVerdict::Stale], "a lease given back is void");
    assert_eq!(renew(&bench, std::slice::from_ref(&old.lease), grant(0)).await, [false]);
    let new = lease(&bench, "w2", grant(1)).await.remove(0);
    assert_eq!((new.lease.epoch, new.attempt), (Epoch(2), 1));
}
