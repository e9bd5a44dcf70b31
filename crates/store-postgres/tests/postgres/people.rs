//! Assignment selection reads what it hands out, and not the whole queue; work on an item reads only that
//! item, whatever the statistics say.

use std::task::Poll;

use millstream_model::document::SourceFormat;
use millstream_model::id::{AssignmentId, ItemId, Name, PersonId, TenantId, WorkerId};
use millstream_model::raw::RawJson;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{
    ItemInput, ItemQueueContext, ItemStepOutcome, NewQueueItem, QueueConfig, QueueState, step_item,
};
use millstream_store::assignments::{
    AssignmentCaller, AssignmentFilter, AssignmentViews, Assignments, NextAssignment,
};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::item_store::{ItemCommit, ItemCommitVerdict, ItemRef, ItemStore};
use millstream_store::queue_store::{PeopleStore, QueueStore};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_testkit::TestProxy;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::support::{PostgresFixture, rows_read};

const ITEMS: usize = 12_000;
const SKILLS: usize = 12;
const CALLS: usize = 40;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// Each item requires two of twelve skills; each person has three.
#[tokio::test]
async fn next_opening_is_found_without_queue_scan() {
    let fixture = PostgresFixture::fresh().await;
    let tenant = TenantId::default_tenant();
    let now = fixture.store.ping().await.unwrap();
    let queue =
        QueueConfig::parse("{name: q, overlap: 2, per_person: {open: 99}}", SourceFormat::Yaml).unwrap();
    fixture.store.put_queue(&tenant, &queue, now).await.unwrap();
    let skill = |at: usize| name(&format!("s{}", at % SKILLS));
    let item = |n: usize| {
        let mut new = NewQueueItem::with_defaults(ItemId::parse(format!("i-{n}")).unwrap(), RawJson::null());
        new.own.skills = [skill(n), skill(n + 1 + n / SKILLS % 5)].into();
        new
    };
    let items: Vec<NewQueueItem> = (0..ITEMS).map(item).collect();
    for batch in items.chunks(1_000) {
        fixture.store.import_items(&tenant, &name("q"), batch, now).await.unwrap();
    }
    let person = |n: usize| PersonId::parse(format!("p{n}")).unwrap();
    let profile = |n: usize| PersonProfile {
        person: person(n),
        skills: [skill(n), skill(n + 1), skill(n + 7)].into(),
        state: QueueState::Active,
    };
    fixture.store.put_people(&tenant, &(0..CALLS).map(profile).collect::<Vec<_>>(), now).await.unwrap();
    fixture.store.close().await;

    let before = rows_read(&fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    for n in 0..CALLS {
        let queues = [name("q")].into();
        let caller = AssignmentCaller {
            tenant: tenant.clone(),
            person: person(n),
            queues,
            next: AssignmentId(Uuid::now_v7()),
        };
        let given = store.assign_next(&[caller], now).await.unwrap().remove(0);
        assert!(matches!(given, NextAssignment::Assigned(_)), "{given:?}");
    }
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 8_000, "{CALLS} calls read {read} index entries, the line has {ITEMS}");
}

#[tokio::test]
async fn item_work_reads_only_that_item() {
    let fixture = PostgresFixture::fresh().await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    for table in ["items", "assignments", "openings", "item_log", "queue_totals"] {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        sqlx::raw_sql(sqlx::AssertSqlSafe(off)).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let tenant = TenantId::default_tenant();
    let now = fixture.store.ping().await.unwrap();
    let queue = QueueConfig::parse("{name: q, overlap: 2}", SourceFormat::Yaml).unwrap();
    fixture.store.put_queue(&tenant, &queue, now).await.unwrap();
    let item =
        |n: usize| NewQueueItem::with_defaults(ItemId::parse(format!("i-{n}")).unwrap(), RawJson::null());
    let items: Vec<NewQueueItem> = (0..4_000).map(item).collect();
    for batch in items.chunks(1_000) {
        fixture.store.import_items(&tenant, &name("q"), batch, now).await.unwrap();
    }
    let callers: Vec<AssignmentCaller> = (0..200)
        .map(|n| AssignmentCaller {
            tenant: tenant.clone(),
            person: PersonId::parse(format!("p{n}")).unwrap(),
            queues: [name("q")].into(),
            next: AssignmentId(Uuid::now_v7()),
        })
        .collect();
    let given = fixture.store.assign_next(&callers, now).await.unwrap();
    fixture.store.close().await;

    let before = rows_read(&fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    for given in given.into_iter().take(20) {
        let NextAssignment::Assigned(given) = given else { panic!("{given:?}") };
        let (assignment, person) = (given.assignment.id, given.assignment.person);
        let submit = ItemInput::Submit { assignment, person: person.clone(), answer: RawJson::null() };
        for input in [ItemInput::Start { assignment, person }, submit] {
            let wanted = [ItemRef::Assignment(tenant.clone(), assignment)];
            let loaded = store.load_items(&wanted).await.unwrap().remove(0).unwrap();
            let setting = ItemQueueContext { queue: &queue, state: QueueState::Active, escalates_to: None };
            let stepped = step_item(&loaded.work, setting, &input, now).unwrap();
            let ItemStepOutcome::Changed(change) = stepped else { panic!("{stepped:?}") };
            let commit = ItemCommit::of(&loaded, *change, None);
            let done = store.commit_items(&WorkerId::no_worker(), &[commit], now).await.unwrap();
            assert!(matches!(done[..], [ItemCommitVerdict::Done { .. }]), "{done:?}");
        }
    }
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 20 * 100, "20 items were worked on and {read} rows read, of 4,000");
}

/// Polls the future through `waits` wake-ups, then drops it; returns whether it was still pending.
async fn is_given_up<F: Future>(future: F, waits: usize) -> bool {
    let (mut future, mut left) = (std::pin::pin!(future), waits);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(false),
        Poll::Pending if left == 0 => Poll::Ready(true),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// A caller is dropped while it is served: at every possible moment, no transaction stays open, and no person
/// gets two assignments.
#[tokio::test]
async fn dropped_next_call_leaves_no_transaction() {
    const OPEN: &str = "
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'";
    let fixture = PostgresFixture::fresh().await;
    let tenant = TenantId::default_tenant();
    let now = fixture.store.ping().await.unwrap();
    let queue = QueueConfig::parse("{name: q}", SourceFormat::Yaml).unwrap();
    fixture.store.put_queue(&tenant, &queue, now).await.unwrap();
    let item =
        |n: usize| NewQueueItem::with_defaults(ItemId::parse(format!("i-{n}")).unwrap(), RawJson::null());
    let items: Vec<NewQueueItem> = (0..300).map(item).collect();
    fixture.store.import_items(&tenant, &name("q"), &items, now).await.unwrap();
    let caller = |n: usize| AssignmentCaller {
        tenant: tenant.clone(),
        person: PersonId::parse(format!("p{n}")).unwrap(),
        queues: [name("q")].into(),
        next: AssignmentId(Uuid::now_v7()),
    };
    let (_proxy, url) = TestProxy::on_the_way(&fixture.database.url).await;
    let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
    let mut given_up = 0;
    for n in 0..200 {
        let callers = [caller(n)];
        given_up += usize::from(is_given_up(store.assign_next(&callers, now), n % 12).await);
    }
    assert!((50..200).contains(&given_up), "{given_up} of 200 were given up");
    for n in 0..200 {
        let given = store.assign_next(&[caller(n)], now).await.unwrap().remove(0);
        assert!(matches!(given, NextAssignment::Assigned(_)), "p{n}: {given:?}");
    }
    let filter = AssignmentFilter::default();
    let all = fixture.store.list_assignments(&tenant, &filter, None, 1_000).await.unwrap();
    assert_eq!(all.len(), 200, "each has one");
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    let open: i64 = sqlx::query_scalar(OPEN).fetch_one(&mut connection).await.unwrap();
    assert_eq!(open, 0);
}
