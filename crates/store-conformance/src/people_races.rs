//! Races: no item twice, no person beyond a limit, and of two ends exactly one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_model::id::{AssignmentId, ItemId, PersonId};
use millstream_people::assignment::{AssignmentStatus, ItemAssignment, ItemInput, ItemStatus, QueueConfig};
use millstream_store::assignments::{AssignmentFilter, NextAssignment};
use millstream_store::item_store::{ItemCommit, ItemCommitVerdict, ItemRef};
use tokio::task::JoinSet;

use crate::ConformanceBench;
use crate::fixture::worker;
use crate::people::{acme, decide_in, item, person, skip, submit};

const ROUNDS: usize = 2_500;
const CALLERS: usize = 64;

/// All people take and complete items until none is left.
async fn all_at_once(bench: &ConformanceBench, items: usize, overlap: usize) {
    bench.queue(&format!("overlap: {overlap}, timeout_seconds: 86400, pre_assignment_timeout: null")).await;
    bench.import_many(items).await;
    let mut tasks = JoinSet::new();
    for n in 0..CALLERS {
        let bench = bench.clone();
        tasks.spawn(async move {
            let mut taken: Vec<(ItemId, PersonId, AssignmentId)> = Vec::new();
            let who = format!("p{n}");
            loop {
                let given = match bench.ask(bench.caller(&who)).await {
                    NextAssignment::Assigned(given) => *given,
                    NextAssignment::Nothing(_) => return taken,
                };
                assert!(!given.already_assigned, "{who} has begun all that they had");
                let one = given.assignment;
                taken.push((one.item.clone(), one.person.clone(), one.id));
                bench.start_work(&one).await;
                bench.hand_in(&one, "1").await;
            }
        });
    }
    let mut by_item: BTreeMap<ItemId, Vec<PersonId>> = BTreeMap::new();
    while let Some(taken) = tasks.join_next().await {
        for (item, person, _) in taken.unwrap() {
            by_item.entry(item).or_default().push(person);
        }
    }
    assert_eq!(by_item.len(), items);
    for (item, people) in by_item {
        let different: BTreeSet<&PersonId> = people.iter().collect();
        assert_eq!((people.len(), different.len()), (overlap, overlap), "{item}: {people:?}");
    }
}

pub async fn concurrent_callers_get_each_item_once(bench: ConformanceBench) {
    all_at_once(&bench, 1_000, 1).await;
}

pub async fn concurrent_callers_get_full_item_overlap(bench: ConformanceBench) {
    all_at_once(&bench, 300, 3).await;
}

pub async fn concurrent_requests_of_person_get_one_assignment(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(50).await;
    for round in 0..20 {
        let who = format!("p{round}");
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let (bench, who) = (bench.clone(), who.clone());
            tasks.spawn(async move { bench.take(&who).await.assignment.id });
        }
        let mut given = BTreeSet::new();
        while let Some(id) = tasks.join_next().await {
            given.insert(id.unwrap());
        }
        assert_eq!(given.len(), 1, "round {round}");
    }
}

/// Two concurrent inputs to the same assignment, [`ROUNDS`] times: one of them is written.
async fn one_of_two(bench: &ConformanceBench, inputs: fn(&ItemAssignment, AssignmentId) -> [ItemInput; 2]) {
    let queue = bench
        .queue(
            "timeout_seconds: 1, per_person: {open: 1000}, reassign_expired: false, reassign_skipped: false",
        )
        .await;
    bench.import_many(ROUNDS).await;
    let given = started(bench, &queue).await;
    let later = bench.now().await.plus(Duration::from_secs(3600));
    let mut rounds = JoinSet::new();
    let mut firsts = 0;
    for one in given {
        while rounds.len() >= 16 {
            firsts += usize::from(rounds.join_next().await.unwrap().unwrap());
        }
        let (bench, queue) = (bench.clone(), queue.clone());
        rounds.spawn(async move {
            let key = item(one.item.as_str());
            let loaded = bench.loaded(&key).await;
            let [first, second] = inputs(&one, bench.assignment_id()).map(|input| {
                let commit =
                    ItemCommit::of(&loaded, decide_in(&queue, &loaded, &input, later).unwrap(), None);
                let bench = bench.clone();
                tokio::spawn(async move {
                    let batch = [commit];
                    bench.stores.items.commit_items(&worker("door"), &batch, later).await.unwrap().remove(0)
                })
            });
            let won = [first.await.unwrap(), second.await.unwrap()].map(|done| match done {
                ItemCommitVerdict::Done { .. } => true,
                ItemCommitVerdict::Conflict { current } => {
                    assert_eq!(current, Some(loaded.version + 1));
                    false
                }
            });
            assert_ne!(won[0], won[1], "{key}: both, or neither");
            won[0]
        });
    }
    while let Some(first) = rounds.join_next().await {
        firsts += usize::from(first.unwrap());
    }
    let status = AssignmentStatus::Completed;
    let (mut completed, mut after) = (0, None);
    loop {
        let filter = AssignmentFilter { status: Some(status), ..AssignmentFilter::default() };
        let views = &bench.stores.assignment_views;
        let page = views.list_assignments(&acme(), &filter, after, 1_000).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        completed += page.len();
    }
    assert_eq!(completed, firsts, "one completion per winning answer");
}

/// As many assignments as there are items, all begun.
async fn started(bench: &ConformanceBench, queue: &QueueConfig) -> Vec<ItemAssignment> {
    let mut given = Vec::new();
    let now = bench.now().await;
    while given.len() < ROUNDS {
        let callers: Vec<_> = (0..50).map(|n| bench.caller(&format!("p{}", given.len() + n))).collect();
        let answers = bench.stores.assignments.assign_next(&callers, now).await.unwrap();
        let mut refs = Vec::new();
        for answer in answers {
            let NextAssignment::Assigned(work) = answer else { panic!("nothing is left") };
            refs.push(ItemRef::Assignment(acme(), work.assignment.id));
            given.push(work.assignment);
        }
        let loaded = bench.stores.items.load_items(&refs).await.unwrap();
        let begun =
            loaded.into_iter().flatten().zip(&given[given.len() - refs.len()..]).map(|(loaded, one)| {
                let start = ItemInput::Start { assignment: one.id, person: one.person.clone() };
                ItemCommit::of(&loaded, decide_in(queue, &loaded, &start, now).unwrap(), None)
            });
        let commits: Vec<ItemCommit> = begun.collect();
        let done = bench.stores.items.commit_items(&worker("door"), &commits, now).await.unwrap();
        assert!(done.iter().all(|done| matches!(done, ItemCommitVerdict::Done { .. })));
    }
    given
}

pub async fn submission_and_expiry_race_has_one_winner(bench: ConformanceBench) {
    one_of_two(&bench, |one, next| [submit(one), ItemInput::Expire { assignment: one.id, next }]).await;
}

pub async fn submission_and_skip_race_has_one_winner(bench: ConformanceBench) {
    one_of_two(&bench, |one, _| [submit(one), skip(one)]).await;
}

pub async fn concurrent_assign_and_recall_stay_consistent(bench: ConformanceBench) {
    bench.queue("per_person: {open: 1000}, max_attempts_total: 1000, overlap: 2").await;
    bench.import_many(20).await;
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let bench = bench.clone();
        tasks.spawn(async move {
            for round in 0..15 {
                let who = format!("p{n}-{round}");
                let NextAssignment::Assigned(given) = bench.ask(bench.caller(&who)).await else { continue };
                let key = item(given.item.id.as_str());
                // The loser of a race loads again.
                loop {
                    let loaded = bench.loaded(&key).await;
                    let start = ItemInput::Start { assignment: given.assignment.id, person: person(&who) };
                    let now = bench.now().await;
                    let begun = loaded.work.assignments[&given.assignment.id].status;
                    let input = match begun {
                        AssignmentStatus::Pending => start,
                        AssignmentStatus::InProgress => skip(&given.assignment),
                        AssignmentStatus::Completed
                        | AssignmentStatus::Expired
                        | AssignmentStatus::Skipped => break,
                    };
                    let change = bench.item_decide(&loaded, &input, now).await.unwrap();
                    bench.commit_item(ItemCommit::of(&loaded, change, None)).await;
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for n in 0..20 {
        let work = bench.loaded(&item(&format!("i-{n}"))).await.work;
        assert_eq!((work.item.status, work.open_count(), work.opening_count()), (ItemStatus::Open, 0, 2));
    }
    let given = bench.take("last").await;
    assert_eq!(given.assignment.status, AssignmentStatus::Pending);
}
