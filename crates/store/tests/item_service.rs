//! The item service, batched, over the memory store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their fixtures")]

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_model::document::SourceFormat;
use millstream_model::id::{
    ActionKey, AssignmentId, DefinitionRef, Epoch, EventId, ExecutionId, ExecutionKey, ItemId, ItemKey, Name,
    PersonId, Seq, TenantId, WorkerId,
};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{
    AdoptionRefusal, AssignmentStatus, ItemAggregate, ItemAssignment, ItemInput, ItemRefusal, ItemStatus,
    ItemWaiter, NewQueueItem, QueueConfig,
};
use millstream_store::action_store::Settlement;
use millstream_store::assignments::{AssignmentCaller, NextAssignment, TotalsFilter};
use millstream_store::item_service::{
    ItemCommand, ItemEnvironment, ItemOutcome, ItemReply, SubmittedAnswer, ValidatedAnswer, WrittenItems,
    apply_commands,
};
use millstream_store::item_store::{ImportVerdict, ItemRef};
use millstream_store::{StoreResult, Stores};
use millstream_store_memory::MemoryStore;
use uuid::Uuid;

/// An environment whose clock moves only when a test moves it.
struct ItemShell {
    stores: Stores,
    millis: AtomicI64,
    ids: AtomicU64,
    settler: WorkerId,
    /// Concurrent commands while an answer is validated.
    meanwhile: Mutex<Vec<ItemCommand>>,
    settled: Mutex<Vec<(ItemWaiter, ItemOutcome)>>,
    written: AtomicU64,
}

#[async_trait::async_trait]
impl ItemEnvironment for ItemShell {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn new_assignment_id(&self) -> AssignmentId {
        AssignmentId(Uuid::from_u64_pair(1, self.ids.fetch_add(1, Ordering::Relaxed)))
    }

    fn settling_worker(&self) -> &WorkerId {
        &self.settler
    }

    async fn validate_answer(&self, answered: SubmittedAnswer<'_>) -> Option<Vec<ValidationProblem>> {
        let meanwhile = std::mem::take(&mut *self.meanwhile.lock().unwrap());
        for answer in apply_commands(self, &meanwhile).await {
            done(answer);
        }
        match answered.answer.as_str() {
            "\"wrong\"" => Some(vec![ValidationProblem::new("/", "is wrong")]),
            "\"slow\"" => None,
            _ => Some(Vec::new()),
        }
    }

    async fn build_settlement(
        &self,
        waiter: &ItemWaiter,
        told: ItemOutcome,
    ) -> StoreResult<Option<Settlement>> {
        self.settled.lock().unwrap().push((waiter.clone(), told));
        Ok(None)
    }

    async fn publish_changes(&self, written: WrittenItems) {
        let count = u64::try_from(written.items.len()).unwrap();
        self.written.fetch_add(count, Ordering::Relaxed);
    }
}

impl ItemShell {
    async fn new(queue: &str, items: Vec<NewQueueItem>) -> Arc<Self> {
        let shell = Self {
            stores: Stores::from_backend(MemoryStore::new()),
            millis: AtomicI64::new(1_767_225_600_000),
            ids: AtomicU64::new(1),
            settler: WorkerId::parse("door").unwrap(),
            meanwhile: Mutex::default(),
            settled: Mutex::default(),
            written: AtomicU64::new(0),
        };
        let config = QueueConfig::parse(&format!("{{name: q, {queue}}}"), SourceFormat::Yaml).unwrap();
        shell.stores.queues.put_queue(&acme(), &config, shell.now()).await.unwrap();
        for imported in
            shell.stores.items.import_items(&acme(), &config.name, &items, shell.now()).await.unwrap()
        {
            assert_eq!(imported, ImportVerdict::Created);
        }
        Arc::new(shell)
    }

    async fn given(&self, who: &str) -> ItemAssignment {
        let queues = [Name::parse("q").unwrap()].into();
        let caller =
            AssignmentCaller { tenant: acme(), person: person(who), queues, next: self.new_assignment_id() };
        match self.stores.assignments.assign_next(&[caller], self.now()).await.unwrap().remove(0) {
            NextAssignment::Assigned(given) => given.assignment,
            NextAssignment::Nothing(idle) => panic!("{who} gets no assignment: {idle:?}"),
        }
    }

    async fn started(&self, who: &str) -> ItemAssignment {
        let given = self.given(who).await;
        done(self.tend_one(start(&given)).await);
        given
    }

    async fn tend_one(&self, ask: ItemCommand) -> StoreResult<ItemReply> {
        apply_commands(self, &[ask]).await.remove(0)
    }

    async fn work(&self, item: &str) -> ItemAggregate {
        let found = self.stores.items.load_items(&[ItemRef::Item(key(item))]).await.unwrap();
        found.into_iter().next().flatten().unwrap().work
    }

    fn pass(&self, length: Duration) {
        self.millis.fetch_add(i64::try_from(length.as_millis()).unwrap(), Ordering::Relaxed);
    }

    fn told(&self) -> Vec<(ItemWaiter, ItemStatus)> {
        self.settled.lock().unwrap().iter().map(|(waiter, told)| (waiter.clone(), told.status)).collect()
    }
}

fn acme() -> TenantId {
    TenantId::parse("acme").unwrap()
}

fn person(text: &str) -> PersonId {
    PersonId::parse(text).unwrap()
}

fn key(item: &str) -> ItemKey {
    ItemKey { tenant: acme(), item: ItemId::parse(item).unwrap() }
}

fn items(count: usize) -> Vec<NewQueueItem> {
    let payload = || RawJson::parse("{}").unwrap();
    (0..count)
        .map(|n| NewQueueItem::with_defaults(ItemId::parse(format!("i-{n}")).unwrap(), payload()))
        .collect()
}

fn about(one: &ItemAssignment, input: ItemInput) -> ItemCommand {
    ItemCommand::for_input(ItemRef::Assignment(acme(), one.id), input)
}

fn start(one: &ItemAssignment) -> ItemCommand {
    about(one, ItemInput::Start { assignment: one.id, person: one.person.clone() })
}

fn submit(one: &ItemAssignment, answer: &str) -> ItemCommand {
    let answer = RawJson::parse(answer).unwrap();
    about(one, ItemInput::Submit { assignment: one.id, person: one.person.clone(), answer })
}

fn skip(one: &ItemAssignment) -> ItemCommand {
    about(one, ItemInput::Skip { assignment: one.id, person: one.person.clone(), reason: None })
}

fn waiter(epoch: i64) -> ItemWaiter {
    let execution = ExecutionKey { tenant: acme(), execution: ExecutionId::parse("e-1").unwrap() };
    ItemWaiter {
        action: ActionKey { execution, seq: Seq(3), action: Name::parse("ask").unwrap() },
        epoch: Epoch(epoch),
        event_id: EventId(Uuid::from_u128(9)),
        definition: DefinitionRef { name: Name::parse("review").unwrap(), version: 1 },
        attempt: 1,
        revision: 0,
        traceparent: None,
    }
}

fn awaited() -> NewQueueItem {
    NewQueueItem { waiter: Some(waiter(1)), ..items(1).remove(0) }
}

fn done(answer: StoreResult<ItemReply>) -> (ItemAggregate, bool) {
    match answer {
        Ok(ItemReply::Done { work, repeated, .. }) => (*work, repeated),
        other => panic!("not done: {other:?}"),
    }
}

fn refused(answer: StoreResult<ItemReply>) -> ItemRefusal {
    match answer {
        Ok(ItemReply::Refused { refusal, .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn batched_item_commands_share_one_write() {
    let shell = ItemShell::new("", items(3)).await;
    let (ann, bob) = (shell.started("ann").await, shell.started("bob").await);
    let asks = [
        submit(&ann, "1"),
        ItemCommand::for_input(ItemRef::Item(key("nowhere")), ItemInput::Overdue),
        submit(&bob, "\"wrong\""),
        skip(&bob),
        submit(&ann, "1"),
    ];
    let mut answers = apply_commands(&*shell, &asks).await.into_iter();
    assert!(!done(answers.next().unwrap()).1);
    assert!(matches!(answers.next().unwrap(), Ok(ItemReply::NoSuchItem)));
    assert!(matches!(answers.next().unwrap(), Ok(ItemReply::Invalid(problems)) if problems.len() == 1));
    let (work, _) = done(answers.next().unwrap());
    assert_eq!(work.assignments[&bob.id].status, AssignmentStatus::Skipped);
    assert!(done(answers.next().unwrap()).1, "the second of the same answers is a repeat");
}

#[tokio::test]
async fn slow_answer_is_validated_outside_batch() {
    let shell = ItemShell::new("overlap: 2", items(1)).await;
    let (ann, bob) = (shell.started("ann").await, shell.started("bob").await);
    let mut answers = apply_commands(&*shell, &[submit(&ann, "\"slow\""), skip(&bob)]).await.into_iter();
    let Ok(ItemReply::Unjudged { queue, payload }) = answers.next().unwrap() else { panic!("it was judged") };
    done(answers.next().unwrap());
    let judged = |payload, problems| ItemCommand {
        judged: Some(ValidatedAnswer { queue: queue.clone(), payload, problems }),
        ..submit(&ann, "\"slow\"")
    };
    let changed = judged(RawJson::from_value(&"another item"), Vec::new());
    let unjudged = apply_commands(&*shell, &[changed]).await.remove(0);
    assert!(matches!(unjudged, Ok(ItemReply::Unjudged { .. })), "it was judged by another payload");
    let wrong = judged(payload.clone(), vec![ValidationProblem::new("/", "is wrong")]);
    assert!(matches!(apply_commands(&*shell, &[wrong]).await.remove(0), Ok(ItemReply::Invalid(_))));
    let (work, _) = done(apply_commands(&*shell, &[judged(payload, Vec::new())]).await.remove(0));
    assert_eq!(work.assignments[&ann.id].status, AssignmentStatus::Completed);
}

#[tokio::test]
async fn commands_on_item_chain_into_one_change() {
    let shell = ItemShell::new("overlap: 2", items(1)).await;
    let (ann, bob) = (shell.given("ann").await, shell.given("bob").await);
    let before = shell.written.load(Ordering::Relaxed);
    let asks = [start(&ann), start(&bob), submit(&ann, "1"), submit(&bob, "2")];
    for answer in apply_commands(&*shell, &asks).await {
        done(answer);
    }
    assert_eq!(shell.written.load(Ordering::Relaxed) - before, 1, "it is written once");
    let work = shell.work("i-0").await;
    assert_eq!(work.item.status, ItemStatus::Done);
    let log = shell.stores.assignment_views.item_log(&key("i-0"), 0, 100).await.unwrap();
    let numbers: Vec<u32> = log.iter().map(|entry| entry.no).collect();
    assert_eq!(numbers, (1..=work.item.entries).collect::<Vec<_>>());
    let totals = shell.stores.assignment_views.sum_totals(&acme(), &TotalsFilter::default()).await.unwrap();
    let mut sum = millstream_people::assignment::stats::AssignmentTotals::default();
    totals.iter().for_each(|(_, _, totals)| sum.merge(totals));
    let report = millstream_people::assignment::stats::AssignmentStats::from_totals(&sum);
    assert_eq!((report.by_status["pending"], report.by_status["in_progress"]), (0, 0));
    assert_eq!((report.total, report.by_status["completed"], report.items["done"]), (2, 2, 1));
}

#[tokio::test]
async fn opening_follows_item_within_batch() {
    let shell = ItemShell::new("overlap: 2, max_attempts_total: 9", items(1)).await;
    let (ann, bob) = (shell.started("ann").await, shell.started("bob").await);
    for answer in apply_commands(&*shell, &[skip(&ann), submit(&bob, "1")]).await {
        done(answer);
    }
    assert_eq!(shell.work("i-0").await.opening_count(), 1);
    let eve = shell.started("eve").await;
    done(shell.tend_one(submit(&eve, "1")).await);
    assert_eq!(shell.work("i-0").await.item.status, ItemStatus::Done);
}

#[tokio::test]
async fn answer_and_expiry_race_has_one_winner() {
    let shell = ItemShell::new("timeout_seconds: 60", items(1)).await;
    let ann = shell.started("ann").await;
    shell.pass(Duration::from_secs(60));
    // The deadline passes while the answer is validated, after its item was loaded.
    let expire = ItemInput::Expire { assignment: ann.id, next: shell.new_assignment_id() };
    *shell.meanwhile.lock().unwrap() = vec![about(&ann, expire.clone())];
    let refusal = refused(shell.tend_one(submit(&ann, "1")).await);
    assert!(
        matches!(refusal, ItemRefusal::Assignment { status: AssignmentStatus::Expired, .. }),
        "{refusal}"
    );
    // The reverse order.
    let again = shell.started("ann").await;
    shell.pass(Duration::from_secs(60));
    done(shell.tend_one(submit(&again, "1")).await);
    let expire = ItemInput::Expire { assignment: again.id, next: shell.new_assignment_id() };
    let refusal = refused(shell.tend_one(about(&again, expire)).await);
    assert!(
        matches!(refusal, ItemRefusal::Assignment { status: AssignmentStatus::Completed, .. }),
        "{refusal}"
    );
}

#[tokio::test]
async fn answer_and_skip_race_has_one_winner() {
    let shell = ItemShell::new("", items(1)).await;
    let ann = shell.started("ann").await;
    *shell.meanwhile.lock().unwrap() = vec![skip(&ann)];
    let refusal = refused(shell.tend_one(submit(&ann, "1")).await);
    assert!(
        matches!(refusal, ItemRefusal::Assignment { status: AssignmentStatus::Skipped, .. }),
        "{refusal}"
    );
}

#[tokio::test]
async fn item_end_settles_waiter_in_write() {
    let shell = ItemShell::new("", vec![awaited()]).await;
    let ann = shell.started("ann").await;
    done(shell.tend_one(submit(&ann, "1")).await);
    assert_eq!(shell.told(), [(waiter(1), ItemStatus::Done)]);
}

#[tokio::test]
async fn adopting_lease_receives_the_outcome() {
    let shell = ItemShell::new("", vec![awaited()]).await;
    let ann = shell.started("ann").await;
    let adopt = |epoch| ItemCommand::for_adoption(ItemRef::Item(key("i-0")), waiter(epoch));
    assert!(!done(shell.tend_one(adopt(2)).await).1);
    assert!(done(shell.tend_one(adopt(2)).await).1);
    let stale = shell.tend_one(adopt(1)).await;
    assert!(matches!(stale, Ok(ItemReply::NotAdopted(AdoptionRefusal::Stale))), "{stale:?}");
    done(shell.tend_one(submit(&ann, "1")).await);
    assert_eq!(shell.told(), [(waiter(2), ItemStatus::Done)]);
}

#[tokio::test]
async fn late_adoption_returns_outcome_to_caller() {
    let shell = ItemShell::new("", vec![awaited()]).await;
    let withdraw = ItemInput::Withdraw { reason: None, by: None };
    let item = || ItemRef::Item(key("i-0"));
    // In one batch: the end is settled under the known lease, and returned to the lease that came after it.
    let asks = [
        ItemCommand::for_input(item(), withdraw),
        ItemCommand::for_adoption(item(), waiter(2)),
        ItemCommand::for_adoption(item(), waiter(2)),
    ];
    let answers = apply_commands(&*shell, &asks).await;
    assert_eq!(shell.told(), [(waiter(1), ItemStatus::Withdrawn)]);
    for answer in &answers[1..] {
        match answer {
            Ok(ItemReply::Done { told: Some(told), .. }) => assert_eq!(told.status, ItemStatus::Withdrawn),
            other => panic!("no outcome: {other:?}"),
        }
    }
    assert_eq!(shell.work("i-0").await.item.waiter, Some(waiter(2)));
}

#[tokio::test]
async fn item_is_adopted_by_its_own_action() {
    let shell = ItemShell::new("", vec![awaited(), items(2).remove(1)]).await;
    let mut other = waiter(2);
    other.action.seq = Seq(4);
    let answer = shell.tend_one(ItemCommand::for_adoption(ItemRef::Item(key("i-0")), other)).await;
    assert!(matches!(answer, Ok(ItemReply::NotAdopted(AdoptionRefusal::Belongs(_)))), "{answer:?}");
    let answer = shell.tend_one(ItemCommand::for_adoption(ItemRef::Item(key("i-1")), waiter(2))).await;
    assert!(matches!(answer, Ok(ItemReply::NotAdopted(AdoptionRefusal::NobodyWaits))), "{answer:?}");
}

#[tokio::test]
async fn escalated_item_continues_in_target_queue() {
    let shell = ItemShell::new("due: 60, escalate: {queue: seniors}", items(2)).await;
    let seniors = QueueConfig::parse("{name: seniors}", SourceFormat::Yaml).unwrap();
    shell.stores.queues.put_queue(&acme(), &seniors, shell.now()).await.unwrap();
    shell.pass(Duration::from_secs(60));
    let due = shell.stores.assignments.list_overdue(shell.now(), 10).await.unwrap();
    let asks: Vec<ItemCommand> =
        due.iter().map(|due| ItemCommand::for_deadline(due, shell.new_assignment_id())).collect();
    assert_eq!(asks.len(), 2);
    for answer in apply_commands(&*shell, &asks).await {
        assert_eq!(done(answer).0.item.queue.as_str(), "seniors");
    }
}
