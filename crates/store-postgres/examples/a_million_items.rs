//! Benchmark of `next` with a million queued items: ten queues, twenty skills of which each item requires
//! three, two people per item, and one item in a hundred that excludes a given person. Prints results,
//! asserts nothing.
//!
//! It needs `MILLSTREAM_TEST_POSTGRES`, as the tests do.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement that fails says so"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use millstream_model::document::SourceFormat;
use millstream_model::id::{AssignmentId, ItemId, Name, PersonId, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{NewQueueItem, QueueConfig, QueueItem, QueueState};
use millstream_store::assignments::{AssignmentCaller, Assignments, NextAssignment};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::queue_store::{PeopleStore, QueueStore};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

const ITEMS: i64 = 1_000_000;
const QUEUES: usize = 10;
const SKILLS: usize = 20;
const PEOPLE: usize = 100;
const CALLS: usize = 3_000;

fn tenant() -> TenantId {
    TenantId::default_tenant()
}

fn queue(at: usize) -> Name {
    Name::parse(format!("q{at}")).unwrap()
}

fn skill(at: usize) -> Name {
    Name::parse(format!("s{at}")).unwrap()
}

/// All combinations of three of them.
fn sets() -> Vec<BTreeSet<Name>> {
    let mut sets = Vec::new();
    for a in 0..SKILLS {
        for b in a + 1..SKILLS {
            for c in b + 1..SKILLS {
                sets.push([skill(a), skill(b), skill(c)].into());
            }
        }
    }
    sets
}

#[tokio::main]
async fn main() {
    let database = millstream_testkit::postgres::private_database().await;
    let store = PostgresStore::connect(&database.url, PostgresOptions::default()).await.unwrap();
    store.migrate().await.unwrap();
    let now = store.ping().await.unwrap();
    let config = |at: usize| {
        let text =
            format!("{{name: q{at}, overlap: 2, per_person: {{open: 1000}}, pre_assignment_timeout: null}}");
        QueueConfig::parse(&text, SourceFormat::Yaml).unwrap()
    };
    for at in 0..QUEUES {
        store.put_queue(&tenant(), &config(at), now).await.unwrap();
    }
    // From three skills, which suit one item in 1,140, to all of them.
    let profile = |at: usize| PersonProfile {
        person: PersonId::parse(format!("p{at}")).unwrap(),
        skills: (0..3 + at % (SKILLS - 2)).map(|n| skill((n * 7 + at) % SKILLS)).collect(),
        state: QueueState::Active,
    };
    store.put_people(&tenant(), &(0..PEOPLE).map(profile).collect::<Vec<_>>(), now).await.unwrap();
    let began = Instant::now();
    fill(&database.url, &config(0), now).await;
    println!("filled with {ITEMS} items in {:?}", began.elapsed());

    let everywhere: BTreeSet<Name> = (0..QUEUES).map(queue).collect();
    measure(&store, "one queue", now, |at| [queue(at % QUEUES)].into()).await;
    measure(&store, "ten queues", now, |_| everywhere.clone()).await;
    // One person has had the first ten thousand of every queue: the worst case of the one in a hundred.
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    sqlx::query("UPDATE openings SET barred = barred || '{p17}'::text[] WHERE position <= 10000 * 10")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query("VACUUM ANALYZE openings").execute(&mut connection).await.unwrap();
    measure_as(&store, "all skills, head of the queue was had", now, 17, |at| [queue(at % QUEUES)].into())
        .await;
}

async fn fill(url: &str, config: &QueueConfig, now: Timestamp) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query("CREATE TEMP TABLE bodies (set_id BIGINT PRIMARY KEY, skills TEXT, body TEXT)")
        .execute(&mut connection)
        .await
        .unwrap();
    let (mut numbers, mut skills, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for (number, set) in (1i64..).zip(sets()) {
        let mut new = NewQueueItem::with_defaults(ItemId::parse("THE-ITEM").unwrap(), RawJson::null());
        new.own.skills = set.clone();
        let body = RawJson::from_value(&QueueItem::from_import(&new, config, now));
        numbers.push(number);
        skills.push(RawJson::from_value(&set).as_str().to_owned());
        bodies.push(body.as_str().replace("\"queue\":\"q0\"", "\"queue\":\"THE-QUEUE\""));
    }
    sqlx::query("INSERT INTO bodies SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])")
        .bind(&numbers)
        .bind(&skills)
        .bind(&bodies)
        .execute(&mut connection)
        .await
        .unwrap();
    let statements = [
        "INSERT INTO skill_sets (tenant, queue, set_id, skills)
         SELECT 'default', 'q' || q, set_id, skills FROM bodies, generate_series(0, 9) q",
        "INSERT INTO items (tenant, item, queue, status, version, position, body, payload)
         SELECT 'default', 'i-' || n, 'q' || n % 10, 'open', 1, n,
                replace(replace(b.body, 'THE-ITEM', 'i-' || n), 'THE-QUEUE', 'q' || n % 10), '{\"n\":1}'
         FROM generate_series(1::bigint, 1000000) n JOIN bodies b ON b.set_id = n * 7919 / 10 % 1140 + 1",
        "INSERT INTO openings (tenant, item, queue, set_id, urgency, class, position, needs, barred)
         SELECT 'default', 'i-' || n, 'q' || n % 10, n * 7919 / 10 % 1140 + 1, 0, 1, n, 2,
                ARRAY['p' || n * 31 / 7 % 100]
         FROM generate_series(1::bigint, 1000000) n",
        "SELECT setval('standing', 1000000)",
        "VACUUM ANALYZE",
    ];
    for statement in statements {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
}

async fn measure(
    store: &PostgresStore,
    what: &str,
    now: Timestamp,
    queues: impl Fn(usize) -> BTreeSet<Name>,
) {
    for _ in 0..50 {
        one(store, 0, queues(0), now).await;
    }
    let mut took = Vec::with_capacity(CALLS);
    for at in 0..CALLS {
        took.push(one(store, at % PEOPLE, queues(at), now).await);
    }
    print(what, took);
}

async fn measure_as(
    store: &PostgresStore,
    what: &str,
    now: Timestamp,
    person: usize,
    queues: impl Fn(usize) -> BTreeSet<Name>,
) {
    let mut took = Vec::with_capacity(CALLS / 10);
    for at in 0..CALLS / 10 {
        took.push(one(store, person, queues(at), now).await);
    }
    print(what, took);
}

/// One call. Its assignment is begun at once, so that the next call gets another one.
async fn one(store: &PostgresStore, person: usize, queues: BTreeSet<Name>, now: Timestamp) -> Duration {
    use millstream_model::id::{ItemKey, WorkerId};
    use millstream_people::assignment::{ItemInput, ItemQueueContext, ItemStepOutcome, step_item};
    use millstream_store::item_store::{ItemCommit, ItemRef, ItemStore};
    let person = PersonId::parse(format!("p{person}")).unwrap();
    let caller = AssignmentCaller {
        tenant: tenant(),
        person: person.clone(),
        queues,
        next: AssignmentId(Uuid::now_v7()),
    };
    let began = Instant::now();
    let given = store.assign_next(std::slice::from_ref(&caller), now).await.unwrap().remove(0);
    let took = began.elapsed();
    let NextAssignment::Assigned(given) = given else { panic!("{person} gets no assignment") };
    let item = ItemRef::Item(ItemKey { tenant: tenant(), item: given.item.id.clone() });
    let loaded = store.load_items(&[item]).await.unwrap().remove(0).unwrap();
    let config = store.find_queues(&[(tenant(), given.item.queue.clone())]).await.unwrap().remove(0).unwrap();
    let setting = ItemQueueContext { queue: &config.config, state: config.state, escalates_to: None };
    let start = ItemInput::Start { assignment: given.assignment.id, person: person.clone() };
    let Ok(ItemStepOutcome::Changed(start)) = step_item(&loaded.work, setting, &start, now) else {
        panic!("not started")
    };
    let commit = ItemCommit::of(&loaded, *start, None);
    let work = millstream_store::opening_selection::item_after_commit(&commit);
    let submit = ItemInput::Submit { assignment: given.assignment.id, person, answer: RawJson::null() };
    let Ok(ItemStepOutcome::Changed(submit)) = step_item(&work.work, setting, &submit, now) else {
        panic!("not submitted")
    };
    let worker = WorkerId::parse("bench").unwrap();
    store.commit_items(&worker, &[commit], now).await.unwrap();
    store.commit_items(&worker, &[ItemCommit::of(&work, *submit, None)], now).await.unwrap();
    took
}

fn print(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |share: f64| took[((took.len() as f64 - 1.0) * share) as usize];
    println!("{what}: p50 {:?}, p90 {:?}, p99 {:?}, most {:?}", at(0.5), at(0.9), at(0.99), at(1.0));
}
