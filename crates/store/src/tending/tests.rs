//! The item service, batched, over the memory store.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_core::assignment::{
    Assignment, AssignmentStatus, Input, ItemStatus, NewItem, NotAdopted, QueueConfig, Refusal, Waiter, Work,
};
use millstream_core::definition::Format;
use millstream_core::id::{
    ActionKey, AssignmentId, DefinitionRef, Epoch, EventId, ExecutionId, ExecutionKey, ItemId, ItemKey, Name,
    PersonId, Seq, TenantId, WorkerId,
};
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use uuid::Uuid;

use super::{Answered, Around, Ask, JudgedAnswer, Tended, Told, Written, tend};
use crate::action_store::Settlement;
use crate::assignments::{Caller, Given, TotalsFilter};
use crate::item_store::{Imported, ItemRef};
use crate::memory::Memory;
use crate::{Result, Stores};

/// An environment whose clock moves only when a test moves it.
struct Shell {
    stores: Stores,
    millis: AtomicI64,
    ids: AtomicU64,
    settler: WorkerId,
    /// Concurrent commands while an answer is validated.
    meanwhile: Mutex<Vec<Ask>>,
    settled: Mutex<Vec<(Waiter, Told)>>,
    written: AtomicU64,
}

#[async_trait::async_trait]
impl Around for Shell {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn fresh(&self) -> AssignmentId {
        AssignmentId(Uuid::from_u64_pair(1, self.ids.fetch_add(1, Ordering::Relaxed)))
    }

    fn settler(&self) -> &WorkerId {
        &self.settler
    }

    async fn judge(&self, answered: Answered<'_>) -> Option<Vec<Problem>> {
        let meanwhile = std::mem::take(&mut *self.meanwhile.lock().unwrap());
        for answer in tend(self, &meanwhile).await {
            done(answer);
        }
        match answered.answer.as_str() {
            "\"wrong\"" => Some(vec![Problem::new("/", "is wrong")]),
            "\"slow\"" => None,
            _ => Some(Vec::new()),
        }
    }

    async fn settlement(&self, waiter: &Waiter, told: Told) -> Result<Option<Settlement>> {
        self.settled.lock().unwrap().push((waiter.clone(), told));
        Ok(None)
    }

    async fn written(&self, written: Written) {
        let count = u64::try_from(written.items.len()).unwrap();
        self.written.fetch_add(count, Ordering::Relaxed);
    }
}

impl Shell {
    async fn new(queue: &str, items: Vec<NewItem>) -> Arc<Self> {
        let shell = Self {
            stores: Stores::of(Memory::new()),
            millis: AtomicI64::new(1_767_225_600_000),
            ids: AtomicU64::new(1),
            settler: WorkerId::parse("door").unwrap(),
            meanwhile: Mutex::default(),
            settled: Mutex::default(),
            written: AtomicU64::new(0),
        };
        let config = QueueConfig::parse(&format!("{{name: q, {queue}}}"), Format::Yaml).unwrap();
        shell.stores.queues.put_queue(&acme(), &config, shell.now()).await.unwrap();
        for imported in shell.stores.items.import(&acme(), &config.name, &items, shell.now()).await.unwrap() {
            assert_eq!(imported, Imported::Created);
        }
        Arc::new(shell)
    }

    async fn given(&self, who: &str) -> Assignment {
        let queues = [Name::parse("q").unwrap()].into();
        let caller = Caller { tenant: acme(), person: person(who), queues, next: self.fresh() };
        match self.stores.assignments.next(&[caller], self.now()).await.unwrap().remove(0) {
            Given::Assigned(given) => given.assignment,
            Given::Nothing(idle) => panic!("{who} gets no assignment: {idle:?}"),
        }
    }

    async fn started(&self, who: &str) -> Assignment {
        let given = self.given(who).await;
        done(self.tend_one(start(&given)).await);
        given
    }

    async fn tend_one(&self, ask: Ask) -> Result<Tended> {
        tend(self, &[ask]).await.remove(0)
    }

    async fn work(&self, item: &str) -> Work {
        let found = self.stores.items.load_items(&[ItemRef::Item(key(item))]).await.unwrap();
        found.into_iter().next().flatten().unwrap().work
    }

    fn pass(&self, length: Duration) {
        self.millis.fetch_add(i64::try_from(length.as_millis()).unwrap(), Ordering::Relaxed);
    }

    fn told(&self) -> Vec<(Waiter, ItemStatus)> {
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

fn items(count: usize) -> Vec<NewItem> {
    let payload = || RawJson::parse("{}").unwrap();
    (0..count).map(|n| NewItem::plain(ItemId::parse(format!("i-{n}")).unwrap(), payload())).collect()
}

fn about(one: &Assignment, input: Input) -> Ask {
    Ask::input(ItemRef::Assignment(acme(), one.id), input)
}

fn start(one: &Assignment) -> Ask {
    about(one, Input::Start { assignment: one.id, person: one.person.clone() })
}

fn submit(one: &Assignment, answer: &str) -> Ask {
    let answer = RawJson::parse(answer).unwrap();
    about(one, Input::Submit { assignment: one.id, person: one.person.clone(), answer })
}

fn skip(one: &Assignment) -> Ask {
    about(one, Input::Skip { assignment: one.id, person: one.person.clone(), reason: None })
}

fn waiter(epoch: i64) -> Waiter {
    let execution = ExecutionKey { tenant: acme(), execution: ExecutionId::parse("e-1").unwrap() };
    Waiter {
        action: ActionKey { execution, seq: Seq(3), action: Name::parse("ask").unwrap() },
        epoch: Epoch(epoch),
        event_id: EventId(Uuid::from_u128(9)),
        definition: DefinitionRef { name: Name::parse("review").unwrap(), version: 1 },
        attempt: 1,
        revision: 0,
        traceparent: None,
    }
}

fn awaited() -> NewItem {
    NewItem { waiter: Some(waiter(1)), ..items(1).remove(0) }
}

fn done(answer: Result<Tended>) -> (Work, bool) {
    match answer {
        Ok(Tended::Done { work, repeated, .. }) => (*work, repeated),
        other => panic!("not done: {other:?}"),
    }
}

fn refused(answer: Result<Tended>) -> Refusal {
    match answer {
        Ok(Tended::Refused { refusal, .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn many_items_are_one_write_and_each_gets_its_answer() {
    let shell = Shell::new("", items(3)).await;
    let (ann, bob) = (shell.started("ann").await, shell.started("bob").await);
    let asks = [
        submit(&ann, "1"),
        Ask::input(ItemRef::Item(key("nowhere")), Input::Overdue),
        submit(&bob, "\"wrong\""),
        skip(&bob),
        submit(&ann, "1"),
    ];
    let mut answers = tend(&*shell, &asks).await.into_iter();
    assert!(!done(answers.next().unwrap()).1);
    assert!(matches!(answers.next().unwrap(), Ok(Tended::NoSuchItem)));
    assert!(matches!(answers.next().unwrap(), Ok(Tended::Invalid(problems)) if problems.len() == 1));
    let (work, _) = done(answers.next().unwrap());
    assert_eq!(work.assignments[&bob.id].status, AssignmentStatus::Skipped);
    assert!(done(answers.next().unwrap()).1, "the second of the same answers is a repeat");
}

#[tokio::test]
async fn a_slow_answer_is_judged_outside_of_its_batch() {
    let shell = Shell::new("overlap: 2", items(1)).await;
    let (ann, bob) = (shell.started("ann").await, shell.started("bob").await);
    let mut answers = tend(&*shell, &[submit(&ann, "\"slow\""), skip(&bob)]).await.into_iter();
    let Ok(Tended::Unjudged { queue, payload }) = answers.next().unwrap() else { panic!("it was judged") };
    done(answers.next().unwrap());
    let judged = |payload, problems| Ask {
        judged: Some(JudgedAnswer { queue: queue.clone(), payload, problems }),
        ..submit(&ann, "\"slow\"")
    };
    let changed = judged(RawJson::of(&"another item"), Vec::new());
    let unjudged = tend(&*shell, &[changed]).await.remove(0);
    assert!(matches!(unjudged, Ok(Tended::Unjudged { .. })), "it was judged by another payload");
    let wrong = judged(payload.clone(), vec![Problem::new("/", "is wrong")]);
    assert!(matches!(tend(&*shell, &[wrong]).await.remove(0), Ok(Tended::Invalid(_))));
    let (work, _) = done(tend(&*shell, &[judged(payload, Vec::new())]).await.remove(0));
    assert_eq!(work.assignments[&ann.id].status, AssignmentStatus::Completed);
}

#[tokio::test]
async fn asks_about_one_item_are_one_change_after_the_other_and_counted_as_such() {
    let shell = Shell::new("overlap: 2", items(1)).await;
    let (ann, bob) = (shell.given("ann").await, shell.given("bob").await);
    let before = shell.written.load(Ordering::Relaxed);
    let asks = [start(&ann), start(&bob), submit(&ann, "1"), submit(&bob, "2")];
    for answer in tend(&*shell, &asks).await {
        done(answer);
    }
    assert_eq!(shell.written.load(Ordering::Relaxed) - before, 1, "it is written once");
    let work = shell.work("i-0").await;
    assert_eq!(work.item.status, ItemStatus::Done);
    let log = shell.stores.assignment_views.item_log(&key("i-0"), 0, 100).await.unwrap();
    let numbers: Vec<u32> = log.iter().map(|entry| entry.no).collect();
    assert_eq!(numbers, (1..=work.item.entries).collect::<Vec<_>>());
    let totals = shell.stores.assignment_views.totals(&acme(), &TotalsFilter::default()).await.unwrap();
    let mut sum = millstream_core::assignment::stats::Totals::default();
    totals.iter().for_each(|(_, _, totals)| sum.merge(totals));
    let report = millstream_core::assignment::stats::Report::of(&sum);
    assert_eq!((report.by_status["pending"], report.by_status["in_progress"]), (0, 0));
    assert_eq!((report.total, report.by_status["completed"], report.items["done"]), (2, 2, 1));
}

#[tokio::test]
async fn an_opening_that_comes_and_goes_within_one_batch_is_in_the_line_as_the_item_says() {
    let shell = Shell::new("overlap: 2, max_attempts_total: 9", items(1)).await;
    let (ann, bob) = (shell.started("ann").await, shell.started("bob").await);
    for answer in tend(&*shell, &[skip(&ann), submit(&bob, "1")]).await {
        done(answer);
    }
    assert_eq!(shell.work("i-0").await.needs(), 1);
    let eve = shell.started("eve").await;
    done(shell.tend_one(submit(&eve, "1")).await);
    assert_eq!(shell.work("i-0").await.item.status, ItemStatus::Done);
}

#[tokio::test]
async fn of_an_answer_and_an_expiry_at_once_exactly_one_is_done() {
    let shell = Shell::new("timeout_seconds: 60", items(1)).await;
    let ann = shell.started("ann").await;
    shell.pass(Duration::from_secs(60));
    // The deadline passes while the answer is validated, after its item was loaded.
    let expire = Input::Expire { assignment: ann.id, next: shell.fresh() };
    *shell.meanwhile.lock().unwrap() = vec![about(&ann, expire.clone())];
    let refusal = refused(shell.tend_one(submit(&ann, "1")).await);
    assert!(matches!(refusal, Refusal::Assignment { status: AssignmentStatus::Expired, .. }), "{refusal}");
    // The reverse order.
    let again = shell.started("ann").await;
    shell.pass(Duration::from_secs(60));
    done(shell.tend_one(submit(&again, "1")).await);
    let expire = Input::Expire { assignment: again.id, next: shell.fresh() };
    let refusal = refused(shell.tend_one(about(&again, expire)).await);
    assert!(matches!(refusal, Refusal::Assignment { status: AssignmentStatus::Completed, .. }), "{refusal}");
}

#[tokio::test]
async fn of_an_answer_and_a_skip_at_once_exactly_one_is_done() {
    let shell = Shell::new("", items(1)).await;
    let ann = shell.started("ann").await;
    *shell.meanwhile.lock().unwrap() = vec![skip(&ann)];
    let refusal = refused(shell.tend_one(submit(&ann, "1")).await);
    assert!(matches!(refusal, Refusal::Assignment { status: AssignmentStatus::Skipped, .. }), "{refusal}");
}

#[tokio::test]
async fn whoever_waits_is_told_with_the_write_that_ends_the_item() {
    let shell = Shell::new("", vec![awaited()]).await;
    let ann = shell.started("ann").await;
    done(shell.tend_one(submit(&ann, "1")).await);
    assert_eq!(shell.told(), [(waiter(1), ItemStatus::Done)]);
}

#[tokio::test]
async fn a_new_lease_is_the_one_that_is_told() {
    let shell = Shell::new("", vec![awaited()]).await;
    let ann = shell.started("ann").await;
    let adopt = |epoch| Ask::adopt(ItemRef::Item(key("i-0")), waiter(epoch));
    assert!(!done(shell.tend_one(adopt(2)).await).1);
    assert!(done(shell.tend_one(adopt(2)).await).1);
    let stale = shell.tend_one(adopt(1)).await;
    assert!(matches!(stale, Ok(Tended::NotAdopted(NotAdopted::Stale))), "{stale:?}");
    done(shell.tend_one(submit(&ann, "1")).await);
    assert_eq!(shell.told(), [(waiter(2), ItemStatus::Done)]);
}

#[tokio::test]
async fn a_lease_that_comes_after_the_end_tells_the_outcome_itself() {
    let shell = Shell::new("", vec![awaited()]).await;
    let withdraw = Input::Withdraw { reason: None, by: None };
    let item = || ItemRef::Item(key("i-0"));
    // In one batch: the end is settled under the known lease, and returned to the lease that came after it.
    let asks = [Ask::input(item(), withdraw), Ask::adopt(item(), waiter(2)), Ask::adopt(item(), waiter(2))];
    let answers = tend(&*shell, &asks).await;
    assert_eq!(shell.told(), [(waiter(1), ItemStatus::Withdrawn)]);
    for answer in &answers[1..] {
        match answer {
            Ok(Tended::Done { told: Some(told), .. }) => assert_eq!(told.status, ItemStatus::Withdrawn),
            other => panic!("no outcome: {other:?}"),
        }
    }
    assert_eq!(shell.work("i-0").await.item.waiter, Some(waiter(2)));
}

#[tokio::test]
async fn an_item_is_adopted_by_its_own_action_alone() {
    let shell = Shell::new("", vec![awaited(), items(2).remove(1)]).await;
    let mut other = waiter(2);
    other.action.seq = Seq(4);
    let answer = shell.tend_one(Ask::adopt(ItemRef::Item(key("i-0")), other)).await;
    assert!(matches!(answer, Ok(Tended::NotAdopted(NotAdopted::Belongs(_)))), "{answer:?}");
    let answer = shell.tend_one(Ask::adopt(ItemRef::Item(key("i-1")), waiter(2))).await;
    assert!(matches!(answer, Ok(Tended::NotAdopted(NotAdopted::NobodyWaits))), "{answer:?}");
}

#[tokio::test]
async fn an_item_goes_on_in_the_queue_that_it_is_escalated_to() {
    let shell = Shell::new("due: 60, escalate: {queue: seniors}", items(2)).await;
    let seniors = QueueConfig::parse("{name: seniors}", Format::Yaml).unwrap();
    shell.stores.queues.put_queue(&acme(), &seniors, shell.now()).await.unwrap();
    shell.pass(Duration::from_secs(60));
    let due = shell.stores.assignments.due(shell.now(), 10).await.unwrap();
    let asks: Vec<Ask> = due.iter().map(|due| Ask::due(due, shell.fresh())).collect();
    assert_eq!(asks.len(), 2);
    for answer in tend(&*shell, &asks).await {
        assert_eq!(done(answer).0.item.queue.as_str(), "seniors");
    }
}
