//! Fixtures of cases about people's work.

use millstream_model::document::SourceFormat;
use millstream_model::id::{AssignmentId, ItemId, ItemKey, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{
    ItemAssignment, ItemChange, ItemInput, ItemQueueContext, ItemRefusal, ItemStepOutcome, NewQueueItem,
    QueueConfig, QueueState, step_item,
};
use millstream_store::action_store::Settlement;
use millstream_store::assignments::{AssignedWork, AssignmentCaller, NextAssignment};
use millstream_store::item_store::{ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef, LoadedItem};

use crate::ConformanceBench;
use crate::fixture::{name, raw, tenant, worker};

pub(crate) fn acme() -> TenantId {
    tenant("acme")
}

pub(crate) fn person(text: &str) -> PersonId {
    PersonId::parse(text).unwrap()
}

pub(crate) fn item_id(text: &str) -> ItemId {
    ItemId::parse(text).unwrap()
}

/// An item of the tenant `acme`.
pub(crate) fn item(text: &str) -> ItemKey {
    ItemKey { tenant: acme(), item: item_id(text) }
}

pub(crate) fn new_item(id: &str) -> NewQueueItem {
    NewQueueItem::with_defaults(item_id(id), raw(&format!(r#"{{"of": "{id}"}}"#)))
}

/// A queue named `q` with these further settings.
pub(crate) fn config(rest: &str) -> QueueConfig {
    named("q", rest)
}

pub(crate) fn named(queue: &str, rest: &str) -> QueueConfig {
    QueueConfig::parse(&format!("{{name: {queue}, {rest}}}"), SourceFormat::Yaml).unwrap()
}

impl ConformanceBench {
    pub(crate) fn assignment_id(&self) -> AssignmentId {
        AssignmentId(self.event_id().0)
    }

    pub(crate) async fn queue(&self, rest: &str) -> QueueConfig {
        let queue = config(rest);
        self.stores.queues.put_queue(&acme(), &queue, self.now().await).await.unwrap();
        queue
    }

    pub(crate) async fn import(&self, items: Vec<NewQueueItem>) {
        let now = self.now().await;
        for imported in self.stores.items.import_items(&acme(), &name("q"), &items, now).await.unwrap() {
            assert_eq!(imported, ImportVerdict::Created);
        }
    }

    /// Items `i-0`, `i-1` and so on.
    pub(crate) async fn import_many(&self, count: usize) {
        self.import((0..count).map(|n| new_item(&format!("i-{n}"))).collect()).await;
    }

    pub(crate) async fn skilled(&self, who: &str, skills: &[&str]) {
        let skills = skills.iter().map(|skill| name(skill)).collect();
        let profile = PersonProfile { person: person(who), skills, state: QueueState::Active };
        self.stores.people.put_people(&acme(), &[profile], self.now().await).await.unwrap();
    }

    pub(crate) fn caller(&self, who: &str) -> AssignmentCaller {
        let (person, next) = (person(who), self.assignment_id());
        AssignmentCaller { tenant: acme(), person, queues: [name("q")].into(), next }
    }

    pub(crate) async fn ask(&self, caller: AssignmentCaller) -> NextAssignment {
        self.stores.assignments.assign_next(&[caller], self.now().await).await.unwrap().remove(0)
    }

    /// Takes an assignment for the person, which must exist.
    pub(crate) async fn take(&self, who: &str) -> AssignedWork {
        match self.ask(self.caller(who)).await {
            NextAssignment::Assigned(given) => *given,
            NextAssignment::Nothing(idle) => panic!("{who} gets no assignment: {idle:?}"),
        }
    }

    pub(crate) async fn taken(&self, who: &str) -> String {
        self.take(who).await.item.id.to_string()
    }

    pub(crate) async fn loaded(&self, key: &ItemKey) -> LoadedItem {
        self.stores.items.load_items(&[ItemRef::Item(key.clone())]).await.unwrap().remove(0).unwrap()
    }

    /// The change that the input makes to the loaded item, at `now`.
    pub(crate) async fn item_decide(
        &self,
        loaded: &LoadedItem,
        input: &ItemInput,
        now: Timestamp,
    ) -> Result<ItemChange, ItemRefusal> {
        let key = (loaded.key.tenant.clone(), loaded.work.item.queue.clone());
        let queue = self.stores.queues.find_queues(&[key]).await.unwrap().remove(0).unwrap();
        decide_in(&queue.config, loaded, input, now)
    }

    pub(crate) async fn commit_item(&self, commit: ItemCommit) -> ItemCommitVerdict {
        let now = self.now().await;
        self.stores.items.commit_items(&worker("door"), &[commit], now).await.unwrap().remove(0)
    }

    /// Load, step and commit.
    pub(crate) async fn item_act(&self, key: &ItemKey, input: &ItemInput) -> ItemChange {
        self.item_act_at(key, input, None, None).await.0
    }

    pub(crate) async fn item_act_at(
        &self,
        key: &ItemKey,
        input: &ItemInput,
        at: Option<Timestamp>,
        settlement: Option<Settlement>,
    ) -> (ItemChange, ItemCommitVerdict) {
        // Concurrent commits on the same item: the loser loads again.
        for _ in 0..1_000 {
            let loaded = self.loaded(key).await;
            let now = match at {
                Some(at) => at,
                None => self.now().await,
            };
            let change = self.item_decide(&loaded, input, now).await.unwrap();
            let batch = [ItemCommit::of(&loaded, change.clone(), settlement.clone())];
            let done = self.stores.items.commit_items(&worker("door"), &batch, now).await.unwrap().remove(0);
            if matches!(done, ItemCommitVerdict::Done { .. }) {
                return (change, done);
            }
        }
        panic!("{key} is never free")
    }

    pub(crate) async fn start_work(&self, one: &ItemAssignment) {
        let key = ItemKey { tenant: acme(), item: one.item.clone() };
        let (assignment, person) = (one.id, one.person.clone());
        self.item_act(&key, &ItemInput::Start { assignment, person }).await;
    }

    pub(crate) async fn hand_in(&self, one: &ItemAssignment, answer: &str) -> ItemChange {
        let key = ItemKey { tenant: acme(), item: one.item.clone() };
        let (assignment, person) = (one.id, one.person.clone());
        self.item_act(&key, &ItemInput::Submit { assignment, person, answer: raw(answer) }).await
    }

    /// Taken, started and submitted.
    pub(crate) async fn work(&self, who: &str) -> ItemAssignment {
        let given = self.take(who).await.assignment;
        self.start_work(&given).await;
        self.hand_in(&given, "1").await;
        given
    }
}

/// The change that the input makes to an item in an active queue.
pub(crate) fn decide_in(
    queue: &QueueConfig,
    loaded: &LoadedItem,
    input: &ItemInput,
    now: Timestamp,
) -> Result<ItemChange, ItemRefusal> {
    let setting = ItemQueueContext { queue, state: QueueState::Active, escalates_to: None };
    match step_item(&loaded.work, setting, input, now)? {
        ItemStepOutcome::Changed(change) => Ok(*change),
        ItemStepOutcome::Repeated => panic!("nothing changes"),
    }
}

pub(crate) fn skip(one: &ItemAssignment) -> ItemInput {
    ItemInput::Skip { assignment: one.id, person: one.person.clone(), reason: None }
}

pub(crate) fn submit(one: &ItemAssignment) -> ItemInput {
    ItemInput::Submit { assignment: one.id, person: one.person.clone(), answer: raw("1") }
}
