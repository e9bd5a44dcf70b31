//! Views of people's work: filters, pages, totals.

use std::collections::BTreeMap;

use millstream_people::assignment::stats::{self, AssignmentStats, AssignmentTotals};
use millstream_people::assignment::{AssignmentStatus, ItemStatus};
use millstream_store::assignments::{AssignmentFilter, ItemFilter, TotalsFilter};

use crate::ConformanceBench;
use crate::fixture::{name, tenant};
use crate::people::{acme, item, item_id, new_item, person, skip};

pub async fn assignments_filter_by_queue_status_person_item(bench: ConformanceBench) {
    bench.queue("overlap: 2").await;
    bench.import_many(3).await;
    let mut all = Vec::new();
    for who in ["ann", "bob", "ann", "cem"] {
        all.push(bench.work(who).await.id);
    }
    all.push(bench.take("ann").await.assignment.id);
    all.sort_by_key(|id| std::cmp::Reverse(*id));
    let views = &bench.stores.assignment_views;
    let find = async |filter: AssignmentFilter, after, limit| {
        let found = views.list_assignments(&acme(), &filter, after, limit).await.unwrap();
        found.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    let any = AssignmentFilter::default;
    assert_eq!(find(any(), None, 9).await, all);
    assert_eq!(find(any(), Some(all[1]), 2).await, all[2..4]);
    let of_queue = AssignmentFilter { queue: Some(name("q")), ..any() };
    assert_eq!(find(of_queue.clone(), Some(all[0]), 9).await, all[1..]);
    let done = AssignmentFilter { status: Some(AssignmentStatus::Completed), ..of_queue };
    assert_eq!(find(done.clone(), None, 9).await.len(), 4);
    assert_eq!(find(done, None, 3).await.len(), 3);
    let ann = AssignmentFilter { person: Some(person("ann")), ..any() };
    assert_eq!(find(ann.clone(), None, 9).await.len(), 3);
    let pending = AssignmentFilter { status: Some(AssignmentStatus::Pending), ..ann.clone() };
    assert_eq!(find(pending, None, 9).await.len(), 1);
    let first = AssignmentFilter { item: Some(item_id("i-0")), ..any() };
    assert_eq!(find(first.clone(), None, 9).await.len(), 2);
    let both = AssignmentFilter { person: Some(person("bob")), ..first };
    assert_eq!(find(both, None, 9).await.len(), 1);
    let elsewhere = AssignmentFilter { queue: Some(name("other")), ..ann };
    assert_eq!(find(elsewhere, None, 9).await, []);
    assert_eq!(views.list_assignments(&tenant("other"), &any(), None, 9).await.unwrap(), []);
}

pub async fn items_are_paged_newest_first(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(5).await;
    bench.work("ann").await;
    let views = &bench.stores.assignment_views;
    let find = async |filter: &ItemFilter, after, limit| {
        let found = views.list_items(&acme(), filter, after, limit).await.unwrap();
        let ids: Vec<String> = found.iter().map(|view| view.item.id.to_string()).collect();
        (ids, found.last().map(|view| view.position))
    };
    let (page, last) = find(&ItemFilter::default(), None, 2).await;
    assert_eq!(page, ["i-4", "i-3"]);
    assert_eq!(find(&ItemFilter::default(), last, 9).await.0, ["i-2", "i-1", "i-0"]);
    let status = |status| ItemFilter { status: Some(status), ..ItemFilter::default() };
    assert_eq!(find(&status(ItemStatus::Done), None, 9).await.0, ["i-0"]);
    let open = ItemFilter { queue: Some(name("q")), ..status(ItemStatus::Open) };
    let (page, last) = find(&open, None, 3).await;
    assert_eq!(page, ["i-4", "i-3", "i-2"]);
    assert_eq!(find(&open, last, 9).await.0, ["i-1"]);
    assert_eq!(find(&ItemFilter { queue: Some(name("x")), ..open }, None, 9).await.0, Vec::<String>::new());
}

pub async fn totals_sum_by_queue_person_day(bench: ConformanceBench) {
    bench.queue("").await;
    bench.import_many(4).await;
    bench.work("ann").await;
    bench.work("ann").await;
    let bob = bench.take("bob").await.assignment;
    bench.start_work(&bob).await;
    bench.item_act(&item("i-2"), &skip(&bob)).await;
    let cem = bench.take("cem").await.assignment;
    assert_eq!(cem.item.as_str(), "i-2");
    let views = &bench.stores.assignment_views;
    let sums = async |filter: TotalsFilter| {
        let found = views.sum_totals(&acme(), &filter).await.unwrap();
        let of = |(queue, who, totals): (_, Option<_>, AssignmentTotals)| {
            assert_eq!(queue, name("q"));
            (
                who.map(|who: millstream_model::id::PersonId| who.to_string()).unwrap_or_default(),
                AssignmentStats::from_totals(&totals),
            )
        };
        found.into_iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let all = sums(TotalsFilter::default()).await;
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), ["", "ann", "bob", "cem"]);
    assert_eq!((all["ann"].total, all["ann"].by_status["completed"]), (2, 2));
    assert_eq!((all["ann"].items["done"], all["bob"].skip_rate), (2, Some(1.0)));
    assert_eq!(all["cem"].by_status["pending"], 1);
    let today = stats::day_of(bench.now().await);
    let ann = TotalsFilter { person: Some(person("ann")), queue: Some(name("q")), ..TotalsFilter::default() };
    assert_eq!(sums(ann.clone()).await.len(), 1);
    let tomorrow = TotalsFilter { from_day: Some(today + 1), ..ann.clone() };
    assert_eq!(sums(tomorrow).await.len(), 0);
    let so_far = TotalsFilter { from_day: Some(today - 1), to_day: Some(today), ..ann };
    assert_eq!(sums(so_far).await.len(), 1);
    assert_eq!(views.sum_totals(&tenant("other"), &TotalsFilter::default()).await.unwrap(), []);
}

pub async fn totals_of_all_tenants_sum_by_queue(bench: ConformanceBench) {
    let views = &bench.stores.assignment_views;
    assert_eq!(views.totals_by_queue(i64::MIN..=i64::MAX).await.unwrap(), []);
    bench.queue("overlap: 2").await;
    bench.import_many(3).await;
    bench.work("ann").await;
    bench.work("bob").await;
    let (config, other) = (bench.stores.queues.list_queues(&acme(), None, 1).await.unwrap(), tenant("other"));
    let now = bench.now().await;
    bench.stores.queues.put_queue(&other, &config[0].config, now).await.unwrap();
    let next_day = now.plus(std::time::Duration::from_secs(86_400));
    for (id, at) in [("a", now), ("b", next_day)] {
        let imported =
            bench.stores.items.import_items(&other, &name("q"), &[new_item(id)], at).await.unwrap();
        assert_eq!(imported.len(), 1);
    }
    let today = stats::day_of(now);
    let found = async |days: std::ops::RangeInclusive<i64>| {
        let found = views.totals_by_queue(days).await.unwrap();
        let of = |(tenant, queue, totals): (millstream_model::id::TenantId, _, AssignmentTotals)| {
            let report = AssignmentStats::from_totals(&totals);
            let imported: i64 = report.items.values().sum();
            (tenant.to_string(), queue, report.by_status["completed"], imported)
        };
        found.into_iter().map(of).collect::<Vec<_>>()
    };
    let row = |tenant: &str, completed, items| (tenant.to_owned(), name("q"), completed, items);
    assert_eq!(found(i64::MIN..=i64::MAX).await, [row("acme", 2, 3), row("other", 0, 2)]);
    assert_eq!(found(today + 1..=today + 1).await, [row("other", 0, 1)]);
    assert_eq!(found(i64::MIN..=today - 1).await, []);
}
