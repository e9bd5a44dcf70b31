//! Items are imported, changed by versions, and settled for waiting actions.

use millstream_model::status::{ActionStatus, EventStatus};
use millstream_people::assignment::item_log::ItemOutline;
use millstream_people::assignment::{ItemInput, ItemLogKind, ItemStatus};
use millstream_store::action_store::{SettleOutcome, SettleVerdict, Settlement};
use millstream_store::assignments::NextAssignment;
use millstream_store::event_log::EventSubmission;
use millstream_store::item_store::{ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef};

use crate::ConformanceBench;
use crate::commit_builder::ready;
use crate::fixture::{execution, grant, name, raw, tenant, worker};
use crate::people::{acme, item, new_item, person, skip, submit};
use crate::settle::{settle, succeed};

pub async fn item_is_imported_once(bench: ConformanceBench) {
    let store = &bench.stores.items;
    let now = bench.now().await;
    let import = async |items: &[_]| store.import_items(&acme(), &name("q"), items, now).await.unwrap();
    assert_eq!(import(&[new_item("a")]).await, [ImportVerdict::NoQueue]);
    bench.queue("max_attempts_total: 3").await;
    assert_eq!(
        import(&[new_item("a"), new_item("b"), new_item("a")]).await,
        [ImportVerdict::Created, ImportVerdict::Created, ImportVerdict::Repeat]
    );
    let mut other = new_item("a");
    other.payload = raw("2");
    let mut greedy = new_item("c");
    greedy.own.overlap = Some(9);
    let verdicts = import(&[new_item("b"), other, greedy]).await;
    assert_eq!(verdicts[..2], [ImportVerdict::Repeat, ImportVerdict::Taken]);
    assert!(
        matches!(&verdicts[2], ImportVerdict::Refused(problems) if problems[0].path == "overlap"),
        "{verdicts:?}"
    );
    let loaded = bench.loaded(&item("a")).await;
    assert_eq!((loaded.version, loaded.work.payload.as_str()), (1, r#"{"of": "a"}"#));
    assert_eq!((loaded.work.item.status, loaded.work.item.created_at), (ItemStatus::Open, now));
    let missing = [ItemRef::Item(item("c")), ItemRef::Assignment(acme(), bench.assignment_id())];
    assert_eq!(store.load_items(&missing).await.unwrap(), [None, None]);
}

pub async fn item_loads_as_committed(bench: ConformanceBench) {
    bench.queue("overlap: 2").await;
    bench.import_many(1).await;
    let one = bench.take("ann").await.assignment;
    bench.start_work(&one).await;
    let change = bench.hand_in(&one, r#"{"b": 1.50,  "a": null}"#).await;
    let by_item = bench.loaded(&item("i-0")).await;
    assert_eq!((by_item.version, &by_item.work), (4, &change.work));
    let by_assignment = bench.stores.items.load_items(&[ItemRef::Assignment(acme(), one.id)]).await.unwrap();
    assert_eq!(by_assignment, [Some(by_item)]);
    let elsewhere = [ItemRef::Assignment(tenant("other"), one.id)];
    assert_eq!(bench.stores.items.load_items(&elsewhere).await.unwrap(), [None]);
}

pub async fn stale_item_version_is_refused(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(2).await;
    let one = bench.take("ann").await.assignment;
    let loaded = bench.loaded(&item("i-0")).await;
    bench.start_work(&one).await;
    let now = bench.now().await;
    let late = ItemInput::Withdraw { reason: None, by: None };
    let change = bench.item_decide(&loaded, &late, now).await.unwrap();
    let stale = ItemCommit::of(&loaded, change.clone(), None);
    let fresh = bench.loaded(&item("i-1")).await;
    let good = ItemCommit::of(&fresh, bench.item_decide(&fresh, &late, now).await.unwrap(), None);
    let mut gone = stale.clone();
    gone.key = item("missing");
    let mut resting = good.clone();
    resting.expected += 1;
    let batch = [stale, good.clone(), gone, good, resting];
    let done = bench.stores.items.commit_items(&worker("door"), &batch, now).await.unwrap();
    assert_eq!(
        done,
        [
            ItemCommitVerdict::Conflict { current: Some(3) },
            ItemCommitVerdict::Done { version: 2, settled: None },
            ItemCommitVerdict::Conflict { current: None },
            ItemCommitVerdict::Conflict { current: Some(2) },
            ItemCommitVerdict::Conflict { current: Some(2) },
        ]
    );
    let item = bench.loaded(&item("i-0")).await;
    assert_eq!((item.version, item.work.item.status), (3, ItemStatus::Open));
}

pub async fn item_log_matches_its_rows(bench: ConformanceBench) {
    bench.queue("max_attempts_per_person: 2").await;
    bench.import_many(1).await;
    let key = item("i-0");
    let one = bench.take("ann").await.assignment;
    let deadline = one.deadline.unwrap();
    let expire = ItemInput::Expire { assignment: one.id, next: bench.assignment_id() };
    bench.item_act_at(&key, &expire, Some(deadline), None).await;
    let again = bench.take("ann").await;
    assert!(again.already_assigned && again.assignment.id != one.id);
    bench.start_work(&again.assignment).await;
    bench.item_act(&key, &skip(&again.assignment)).await;
    bench.work("bob").await;
    let views = &bench.stores.assignment_views;
    let log = views.item_log(&key, 0, 100).await.unwrap();
    let words: Vec<ItemLogKind> = log.iter().map(|entry| entry.what).collect();
    use ItemLogKind::{Assigned, Done, Expired, Imported, Reopened, Reserved, Skipped, Started, Submitted};
    let expected = [
        Imported, Assigned, Expired, Reserved, Started, Skipped, Reopened, Assigned, Started, Submitted, Done,
    ];
    assert_eq!(words, expected);
    let work = bench.loaded(&key).await.work;
    assert_eq!(ItemOutline::replay_log(&key.item, &log), Some(ItemOutline::from_rows(&work)));
    assert_eq!(views.item_log(&key, 3, 2).await.unwrap(), log[3..5]);
    assert_eq!(views.item_log(&item("missing"), 0, 2).await.unwrap(), []);
}

pub async fn item_end_settles_action_in_commit(bench: ConformanceBench) {
    let key = execution("waits");
    let (event, _, done) = bench.acting(&key, &[ready("review")], grant(1)).await;
    let leased = &done.leased[0];
    let awaiting = Settlement { outcome: SettleOutcome::Awaiting { until: None }, ..succeed(leased, "1") };
    settle(&bench, vec![awaiting], grant(0)).await;
    bench.queue("").await;
    bench.import_many(1).await;
    let one = bench.take("ann").await.assignment;
    bench.start_work(&one).await;
    let loaded = bench.loaded(&item("i-0")).await;
    let change = bench.item_decide(&loaded, &submit(&one), bench.now().await).await.unwrap();
    let payload = change.told.clone().unwrap().payload;
    let emit: EventSubmission =
        EventSubmission { payload: payload.clone(), ..crate::fixture::event(&bench, &key, "reviewed") };
    let told = emit.event_id;
    let outcome = SettleOutcome::Succeeded { result: payload.clone(), emit: Some(Box::new(emit)) };
    let settlement = Settlement { outcome, ..succeed(leased, "1") };

    // A refused commit settles nothing.
    let mut stale = ItemCommit::of(&loaded, change.clone(), Some(settlement.clone()));
    stale.expected += 1;
    assert!(matches!(bench.commit_item(stale).await, ItemCommitVerdict::Conflict { .. }));
    assert_eq!(bench.action(&key, "review").await.status, ActionStatus::Awaiting);

    let commit = ItemCommit::of(&loaded, change, Some(settlement.clone()));
    let settled = Some(SettleVerdict::Recorded { event: EventStatus::Completed });
    assert_eq!(bench.commit_item(commit).await, ItemCommitVerdict::Done { version: 4, settled });
    let action = bench.action(&key, "review").await;
    assert_eq!((action.status, action.result), (ActionStatus::Succeeded, Some(payload)));
    assert_eq!(bench.event(&key, event).await.status, EventStatus::Completed);
    assert_eq!(bench.event(&key, told).await.status, EventStatus::Pending);
}

pub async fn stale_settlement_does_not_block_item(bench: ConformanceBench) {
    let key = execution("gave-up");
    let (_, _, done) = bench.acting(&key, &[ready("review")], grant(1)).await;
    settle(&bench, vec![succeed(&done.leased[0], "1")], grant(0)).await;
    bench.queue("").await;
    bench.import_many(1).await;
    let withdraw = ItemInput::Withdraw { reason: None, by: None };
    let late = succeed(&done.leased[0], "2");
    let (_, done) = bench.item_act_at(&item("i-0"), &withdraw, None, Some(late)).await;
    assert_eq!(done, ItemCommitVerdict::Done { version: 2, settled: Some(SettleVerdict::Stale) });
    assert_eq!(bench.loaded(&item("i-0")).await.work.item.status, ItemStatus::Withdrawn);
}

pub async fn due_items_come_longest_overdue_first(bench: ConformanceBench) {
    bench.queue("per_person: {open: 9}, due: 10d").await;
    bench.import_many(3).await;
    let now = bench.now().await;
    let store = &bench.stores.assignments;
    assert_eq!(store.list_overdue(now, 9).await.unwrap(), []);
    let first = bench.take("ann").await;
    let second = bench.take("bob").await;
    bench.start_work(&first.assignment).await;
    let later = now.plus(std::time::Duration::from_secs(4000));
    let due = async |at, limit| {
        let due = store.list_overdue(at, limit).await.unwrap();
        due.into_iter().map(|due| (due.item.item.to_string(), due.assignment)).collect::<Vec<_>>()
    };
    let (a, b) = (first.assignment.id, second.assignment.id);
    assert_eq!(due(later, 9).await, [("i-1".to_owned(), Some(b)), ("i-0".to_owned(), Some(a))]);
    assert_eq!(due(later, 1).await.len(), 1);
    assert_eq!(due(now.plus(std::time::Duration::from_secs(1000)), 9).await, [("i-1".to_owned(), Some(b))]);
    bench.hand_in(&first.assignment, "1").await;
    assert_eq!(due(later, 9).await, [("i-1".to_owned(), Some(b))]);
    let much_later = now.plus(std::time::Duration::from_secs(11 * 86_400));
    let items: Vec<_> = due(much_later, 9).await.into_iter().filter(|(_, one)| one.is_none()).collect();
    assert_eq!(items, [("i-1".to_owned(), None), ("i-2".to_owned(), None)]);
}

pub async fn purged_items_leave_their_totals(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(3).await;
    bench.work("ann").await;
    bench.item_act(&item("i-1"), &ItemInput::Withdraw { reason: None, by: None }).await;
    let now = bench.now().await;
    let store = &bench.stores.items;
    assert_eq!(store.purge_items(now.minus(crate::fixture::HOUR), 9).await.unwrap(), 0);
    let later = now.plus(crate::fixture::HOUR);
    assert_eq!(store.purge_items(later, 1).await.unwrap(), 1);
    assert_eq!(store.purge_items(later, 9).await.unwrap(), 1);
    assert_eq!(store.purge_items(later, 9).await.unwrap(), 0);
    let views = &bench.stores.assignment_views;
    assert_eq!(views.list_assignments(&acme(), &Default::default(), None, 9).await.unwrap(), []);
    assert_eq!(views.item_log(&item("i-0"), 0, 9).await.unwrap(), []);
    assert_eq!(views.list_items(&acme(), &Default::default(), None, 9).await.unwrap().len(), 1);
    assert!(!views.sum_totals(&acme(), &Default::default()).await.unwrap().is_empty());
    bench.import(vec![new_item("i-0")]).await;
    assert_eq!(bench.taken("bob").await, "i-2");
    assert!(
        matches!(bench.ask(bench.caller("ann")).await, NextAssignment::Assigned(_)),
        "it is another item now"
    );
    let open = bench.loaded(&item("i-0")).await;
    assert!(open.work.is_assigned_to(&person("ann")));
}

pub async fn item_with_open_correction_is_kept(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(1).await;
    let one = bench.work("ann").await;
    let next = bench.assignment_id();
    let correct = ItemInput::Correct { assignment: one.id, person: None, next, by: None };
    bench.item_act(&item("i-0"), &correct).await;
    let later = bench.now().await.plus(crate::fixture::HOUR);
    assert_eq!(bench.stores.items.purge_items(later, 9).await.unwrap(), 0);
    assert_eq!(bench.take("ann").await.assignment.id, next, "it is theirs, and pending");
}
