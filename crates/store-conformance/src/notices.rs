//! Notices about runs and items: written with their change, spread once, due in order, per sink.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_devices::claim::{DeviceAction, RunInput, RunSpec, SeatFailure, SeatFailureKind, SeatOutlook};
use millstream_model::id::{Name, RunKey};
use millstream_model::time::Timestamp;
use millstream_people::assignment::ItemInput;
use millstream_store::item_store::ItemCommit;
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticeBackoff};
use millstream_store::run_store::RunVerdict;

use crate::ConformanceBench;
use crate::device_fixture::{act, assign, decide, run_key, run_of, spec, write};
use crate::fixture::{HOUR, name};
use crate::people::{acme, item, named, new_item, skip};

async fn spread(bench: &ConformanceBench, sinks: &[&str]) -> usize {
    let sinks: Vec<Name> = sinks.iter().map(|sink| name(sink)).collect();
    bench.stores.notices.spread_notices(&sinks, 99, bench.now().await).await.unwrap()
}

async fn due(bench: &ConformanceBench, sink: &str) -> Vec<DueNotice> {
    bench.stores.notices.due_notices(&name(sink), 99, bench.now().await).await.unwrap()
}

async fn told(bench: &ConformanceBench, sink: &str, notices: &[DueNotice]) {
    let positions: Vec<i64> = notices.iter().map(|notice| notice.position).collect();
    bench.stores.notices.delete_delivered_notices(&name(sink), &positions).await.unwrap();
}

/// `tenant/subject: kind`.
fn words(notices: &[DueNotice]) -> Vec<String> {
    let word = |one: &DueNotice| format!("{}/{}: {}", one.tenant, one.notice.subject, one.notice.kind);
    notices.iter().map(word).collect()
}

/// A seat that a device began and failed.
fn fails() -> [RunInput; 4] {
    let failure =
        SeatFailure { kind: SeatFailureKind::Error, message: "\0 it is dark".to_owned(), class: None };
    let fail = DeviceAction::Fail { failure, retryable: false };
    [assign("d1"), act("d1", 1, DeviceAction::Accept), act("d1", 1, DeviceAction::Start), act("d1", 1, fail)]
}

/// Fails as soon as no device is found.
fn lonely() -> RunSpec {
    let mut spec = spec();
    spec.settings.backoff.rounds = 0;
    spec
}

fn nobody() -> RunInput {
    RunInput::NobodyViable { seat: 0, outlook: SeatOutlook::Nobody, decision: None }
}

async fn failed(bench: &ConformanceBench, key: &RunKey) {
    bench.run_after(key, lonely(), &[nobody()]).await;
}

pub async fn failed_run_writes_notice_with_commit(bench: ConformanceBench) {
    bench.run_after(&run_key("open"), spec(), &[assign("d1")]).await;
    bench.run_after(&run_key("dark"), spec(), &fails()).await;
    failed(&bench, &run_of("other", "left")).await;
    assert_eq!(spread(&bench, &["one"]).await, 2);
    let found = due(&bench, "one").await;
    assert_eq!(words(&found), ["acme/dark: run.failed", "other/left: run.nobody_left"]);
    assert!(found[0].position < found[1].position);
    let data = found[0].notice.data.as_str();
    assert!(data.contains(r#""run_id":"dark""#) && data.contains(r"\u0000 it is dark"), "{data}");
}

pub async fn refused_unit_writes_no_notice(bench: ConformanceBench) {
    let key = run_key("r1");
    let seen = bench.run_after(&key, lonely(), &[]).await;
    let change = decide(seen.run.clone(), &nobody(), bench.now().await).unwrap().unwrap();
    bench.step_run(&key, &RunInput::Pause).await;
    let verdict = bench.commit_units(&[write(&seen, change).into()]).await.remove(0);
    assert!(matches!(verdict, RunVerdict::Conflict { .. }));
    assert_eq!(spread(&bench, &["one"]).await, 0);
}

pub async fn failed_or_escalated_item_writes_notice(bench: ConformanceBench) {
    bench.queue("max_attempts_total: 1, due: 1h, escalate: {event: late}").await;
    bench.import(vec![new_item("a"), new_item("b")]).await;
    let given = bench.take("ann").await;
    bench.start_work(&given.assignment).await;
    let stale = bench.loaded(&item(given.item.id.as_str())).await;
    let change = bench.item_decide(&stale, &skip(&given.assignment), bench.now().await).await.unwrap();
    bench.item_act(&stale.key, &skip(&given.assignment)).await;
    bench.commit_item(ItemCommit::of(&stale, change, None)).await;
    assert_eq!(spread(&bench, &["one"]).await, 1, "a conflict writes no notice");
    let plain = named("q", "due: 1h");
    bench.stores.queues.put_queue(&acme(), &plain, bench.now().await).await.unwrap();
    let late = bench.loaded(&item("b")).await.work.item.due_at.unwrap().plus(HOUR);
    bench.item_act_at(&item("b"), &ItemInput::Overdue, Some(late), None).await;
    assert_eq!(spread(&bench, &["one"]).await, 1);
    let found = due(&bench, "one").await;
    assert_eq!(words(&found), ["acme/a: item.escalated", "acme/b: item.failed"]);
    assert!(found[0].notice.data.as_str().contains(r#""event":"late""#));
}

pub async fn notice_is_spread_once_to_current_sinks(bench: ConformanceBench) {
    failed(&bench, &run_key("before")).await;
    assert_eq!(spread(&bench, &[]).await, 1, "no sink is configured");
    for run in ["a", "b"] {
        failed(&bench, &run_key(run)).await;
    }
    let now = bench.now().await;
    let notices = &bench.stores.notices;
    assert_eq!(notices.spread_notices(&[name("one"), name("two")], 1, now).await.unwrap(), 1);
    assert_eq!(spread(&bench, &["one"]).await, 1);
    assert_eq!(spread(&bench, &["one", "two"]).await, 0);
    let (one, two) = (due(&bench, "one").await, due(&bench, "two").await);
    assert_eq!(words(&one), ["acme/a: run.nobody_left", "acme/b: run.nobody_left"]);
    assert_eq!(two, one[..1], "the same, under the same position");
    assert!(due(&bench, "three").await.is_empty());
    assert_eq!(notices.due_notices(&name("one"), 1, now.plus(HOUR)).await.unwrap(), one[..1]);
    told(&bench, "one", &one).await;
    told(&bench, "one", &one).await;
    told(&bench, "one", &[]).await;
    assert!(due(&bench, "one").await.is_empty());
    assert_eq!(due(&bench, "two").await, two, "another sink is where it was");
}

pub async fn notices_of_subject_are_due_sequentially(bench: ConformanceBench) {
    let key = run_key("r");
    failed(&bench, &key).await;
    failed(&bench, &run_of("other", "r")).await;
    bench.step_run(&key, &RunInput::Retry).await;
    spread(&bench, &["one"]).await;
    let first = due(&bench, "one").await;
    assert_eq!(words(&first), ["acme/r: run.nobody_left", "other/r: run.nobody_left"]);
    bench.step_run(&key, &nobody()).await;
    spread(&bench, &["one"]).await;
    assert_eq!(due(&bench, "one").await, first, "the second waits for the first");
    told(&bench, "one", &first).await;
    let second = due(&bench, "one").await;
    assert_eq!(words(&second), ["acme/r: run.nobody_left"]);
    assert!(second[0].position > first[0].position);
}

pub async fn postponed_notice_blocks_no_other_subject(bench: ConformanceBench) {
    let bad = run_key("bad");
    failed(&bench, &bad).await;
    failed(&bench, &run_key("good")).await;
    spread(&bench, &["one", "two"]).await;
    let (notices, until) = (&bench.stores.notices, bench.now().await.plus(HOUR));
    let position = due(&bench, "one").await[0].position;
    let later = [NoticeBackoff { position, until, attempts: 3 }];
    notices.postpone_notices(&name("one"), &later).await.unwrap();
    notices.postpone_notices(&name("one"), &[]).await.unwrap();
    bench.step_run(&bad, &RunInput::Retry).await;
    bench.step_run(&bad, &nobody()).await;
    spread(&bench, &["one"]).await;
    assert_eq!(words(&due(&bench, "one").await), ["acme/good: run.nobody_left"]);
    assert_eq!(due(&bench, "two").await.len(), 2);
    let found = notices.due_notices(&name("one"), 9, until).await.unwrap();
    assert_eq!(found.iter().map(|one| one.attempts).collect::<Vec<_>>(), [0, 3], "the longest due first");
    assert_eq!(found[1].position, position);
}

pub async fn notice_backlogs_are_counted_per_sink(bench: ConformanceBench) {
    let notices = &bench.stores.notices;
    failed(&bench, &run_key("a")).await;
    assert!(notices.notice_backlogs().await.unwrap().is_empty(), "not spread yet");
    failed(&bench, &run_key("b")).await;
    spread(&bench, &["y", "x"]).await;
    let first = due(&bench, "x").await;
    told(&bench, "x", &first[..1]).await;
    let of = |sink: &str, notices, oldest| NoticeBacklog { sink: name(sink), notices, oldest };
    let wanted = [of("x", 1, first[1].notice.at), of("y", 2, first[0].notice.at)];
    assert_eq!(notices.notice_backlogs().await.unwrap(), wanted);
}

pub async fn old_notices_are_purged(bench: ConformanceBench) {
    let now = bench.now().await;
    let old = now.minus(HOUR);
    bench.run_at(&run_key("old"), lonely(), &[nobody()], old).await;
    bench.run_at(&run_key("older"), lonely(), &[nobody()], old.minus(HOUR)).await;
    spread(&bench, &["gone"]).await;
    bench.run_at(&run_key("unspread"), lonely(), &[nobody()], old).await;
    bench.run_at(&run_key("fresh"), lonely(), &[nobody()], now).await;
    let (notices, limit) = (&bench.stores.notices, now.minus(HOUR / 2));
    assert_eq!(notices.purge_notices(limit, 2).await.unwrap(), 2, "no more than asked for");
    assert_eq!(notices.purge_notices(limit, 9).await.unwrap(), 1);
    assert_eq!(notices.purge_notices(limit, 9).await.unwrap(), 0);
    assert_eq!(spread(&bench, &["gone"]).await, 1);
    assert_eq!(words(&due(&bench, "gone").await), ["acme/fresh: run.nobody_left"]);
}

pub async fn notice_positions_are_never_reused(bench: ConformanceBench) {
    let mut last = 0;
    for run in ["a", "b", "c"] {
        failed(&bench, &run_key(run)).await;
        spread(&bench, &["one"]).await;
        let found = due(&bench, "one").await;
        assert!(found[0].position > last);
        last = found[0].position;
        told(&bench, "one", &found).await;
    }
}

pub async fn concurrent_notices_are_delivered_in_order(bench: ConformanceBench) {
    const TIMES: usize = 25;
    let keys = ["r", "s"].map(run_key);
    let writing = keys.clone().map(|key| {
        let bench = bench.clone();
        tokio::spawn(async move {
            failed(&bench, &key).await;
            for _ in 1..TIMES {
                bench.step_run(&key, &RunInput::Retry).await;
                bench.step_run(&key, &nobody()).await;
            }
        })
    });
    let spreading = {
        let bench = bench.clone();
        tokio::spawn(async move {
            let mut left = 200;
            while left > 0 {
                left = if spread_some(&bench).await == 0 { left - 1 } else { 200 };
                tokio::task::yield_now().await;
            }
        })
    };
    let mut heard: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while heard.values().map(Vec::len).sum::<usize>() < 2 * TIMES {
        assert!(tokio::time::Instant::now() < deadline, "{heard:?}");
        spread_some(&bench).await;
        let late = Timestamp::from_millis(i64::MAX / 2);
        let found = bench.stores.notices.due_notices(&name("one"), 9, late).await.unwrap();
        for one in &found {
            heard.entry(one.notice.subject.clone()).or_default().push(one.position);
        }
        told(&bench, "one", &found).await;
    }
    for task in writing {
        task.await.unwrap();
    }
    spreading.await.unwrap();
    assert!(heard.values().all(|positions| positions.len() == TIMES && positions.is_sorted()), "{heard:?}");
    assert!(due(&bench, "one").await.is_empty());
}

async fn spread_some(bench: &ConformanceBench) -> usize {
    bench.stores.notices.spread_notices(&[name("one")], 3, bench.now().await).await.unwrap()
}
