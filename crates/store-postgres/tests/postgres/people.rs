//! Handing out reads what it hands out, and not the line.

use millstream_core::assignment::NewItem;
use millstream_core::assignment::next::Profile;
use millstream_core::assignment::{QueueConfig, QueueState};
use millstream_core::definition::Format;
use millstream_core::id::{AssignmentId, ItemId, Name, PersonId, TenantId};
use millstream_core::raw::RawJson;
use millstream_store::assignments::{Assignments, Caller, Given};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::item_store::ItemStore;
use millstream_store::queue_store::{PeopleStore, QueueStore};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use uuid::Uuid;

use crate::support::{Fixture, rows_read};

const ITEMS: usize = 12_000;
const SKILLS: usize = 12;
const CALLS: usize = 40;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// Each item asks for two of twelve skills; each person has three.
#[tokio::test]
async fn the_next_opening_is_found_without_reading_the_line() {
    let fixture = Fixture::fresh().await;
    let tenant = TenantId::default_tenant();
    let now = fixture.store.ping().await.unwrap();
    let queue = QueueConfig::parse("{name: q, overlap: 2, per_person: {open: 99}}", Format::Yaml).unwrap();
    fixture.store.put_queue(&tenant, &queue, now).await.unwrap();
    let skill = |at: usize| name(&format!("s{}", at % SKILLS));
    let item = |n: usize| {
        let mut new = NewItem::plain(ItemId::parse(format!("i-{n}")).unwrap(), RawJson::null());
        new.own.skills = [skill(n), skill(n + 1 + n / SKILLS % 5)].into();
        new
    };
    let items: Vec<NewItem> = (0..ITEMS).map(item).collect();
    for batch in items.chunks(1_000) {
        fixture.store.import(&tenant, &name("q"), batch, now).await.unwrap();
    }
    let person = |n: usize| PersonId::parse(format!("p{n}")).unwrap();
    let profile = |n: usize| Profile {
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
        let caller =
            Caller { tenant: tenant.clone(), person: person(n), queues, next: AssignmentId(Uuid::now_v7()) };
        let given = store.next(&[caller], now).await.unwrap().remove(0);
        assert!(matches!(given, Given::Assigned(_)), "{given:?}");
    }
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 8_000, "{CALLS} calls read {read} index entries, the line has {ITEMS}");
}
