//! Actions performed by people: an item is created, supervised, reported, taken over, and withdrawn.

use millstream_model::document::SourceFormat;
use millstream_model::entropy;
use millstream_model::id::{
    AssignmentId, Epoch, EventId, ExecutionKey, ItemId, ItemKey, Name, PersonId, TenantId, WorkerId,
};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, ExecutionStatus};
use millstream_model::time::Timestamp;
use millstream_people::assignment::{
    AssignmentStatus, ItemAggregate, ItemAssignment, ItemInput, ItemStatus, ItemWaiter, NewQueueItem,
    QueueConfig,
};
use millstream_store::action_store::Settlement;
use millstream_store::assignments::{AssignmentCaller, ItemFilter, NextAssignment};
use millstream_store::incidents::{IncidentFilter, IncidentStatus, IncidentView};
use millstream_store::intervention::{DecisionRecord, RetryVerdict};
use millstream_store::item_service::{
    self, ItemCommand, ItemEnvironment, ItemOutcome, ItemReply, SubmittedAnswer, WrittenItems, apply_commands,
};
use millstream_store::item_store::ItemRef;
use millstream_store::{StoreResult, Stores};
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_workflow::definition_parser;
use millstream_workflow::machine::Machine;

use crate::bench::WorkerBench;
use crate::faulty::{self, FaultyCall, ServiceFault};

const SHOP: &str = "
name: shop
initial: new
context: {}
states:
  new: { on: { go: { to: asking, do: [ask] } } }
  asking:
    on:
      answered: { to: done, set: { result: event.payload.result } }
      unanswered: { to: lost, set: { error: event.payload.error } }
      given_up: { to: lost, set: { error: event.payload.error } }
      stop: { to: done }
  done: { final: true }
  lost: { final: failed }
actions:
  ask:
    task_for: { queue: questions, payload: { n: '7' } }
    on_success: answered
    on_failure: unanswered
";

/// The ingress, as far as people need it.
struct PeopleDesk<'a> {
    bench: &'a WorkerBench,
    machine: Machine,
    name: WorkerId,
}

#[async_trait::async_trait]
impl ItemEnvironment for PeopleDesk<'_> {
    fn stores(&self) -> &Stores {
        &self.bench.stores
    }

    fn now(&self) -> Timestamp {
        self.bench.now()
    }

    fn new_assignment_id(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.bench.now(), &*self.bench.entropy))
    }

    fn settling_worker(&self) -> &WorkerId {
        &self.name
    }

    async fn validate_answer(&self, _: SubmittedAnswer<'_>) -> Option<Vec<ValidationProblem>> {
        Some(Vec::new())
    }

    async fn build_settlement(
        &self,
        waiter: &ItemWaiter,
        told: ItemOutcome,
    ) -> StoreResult<Option<Settlement>> {
        let mut new_id = || self.bench.event_id();
        Ok(item_service::settle_waiter(&self.machine, waiter, &told, self.now(), &mut new_id))
    }

    async fn publish_changes(&self, written: WrittenItems) {
        for (settlement, _) in written.settled {
            self.bench.ring(&settlement.lease.key.execution).await;
        }
    }
}

impl<'a> PeopleDesk<'a> {
    fn of(bench: &'a WorkerBench, source: &str) -> Self {
        let machine =
            Machine::compile(definition_parser::parse(source, SourceFormat::Yaml).unwrap()).unwrap();
        Self { bench, machine, name: WorkerId::parse("desk").unwrap() }
    }

    /// Waits until there is an assignment for the person.
    async fn given(&self, who: &str) -> ItemAssignment {
        eventually(PATIENCE, || async {
            let person = PersonId::parse(who).unwrap();
            let caller = AssignmentCaller {
                tenant: tenant(),
                person,
                queues: Default::default(),
                next: self.new_assignment_id(),
            };
            match self.bench.stores.assignments.assign_next(&[caller], self.now()).await.unwrap().remove(0) {
                NextAssignment::Assigned(given) => Ok(given.assignment),
                NextAssignment::Nothing(idle) => Err(idle),
            }
        })
        .await
    }

    async fn answers(&self, who: &str, answer: &str) {
        let given = self.given(who).await;
        let (assignment, person) = (given.id, given.person.clone());
        self.does(ItemInput::Start { assignment, person: person.clone() }).await;
        let answer = RawJson::parse(answer).unwrap();
        self.does(ItemInput::Submit { assignment, person, answer }).await;
    }

    async fn does(&self, input: ItemInput) {
        let (ItemInput::Start { assignment, .. } | ItemInput::Submit { assignment, .. }) = &input else {
            panic!()
        };
        let of = ItemRef::Assignment(tenant(), *assignment);
        let tended = apply_commands(self, &[ItemCommand::for_input(of, input)]).await.remove(0).unwrap();
        assert!(matches!(tended, ItemReply::Done { repeated: false, .. }), "{tended:?}");
    }
}

fn tenant() -> TenantId {
    TenantId::default_tenant()
}

async fn queue(bench: &WorkerBench, settings: &str) {
    let config = QueueConfig::parse(&format!("{{name: questions, {settings}}}"), SourceFormat::Yaml).unwrap();
    bench.stores.queues.put_queue(&tenant(), &config, bench.now()).await.unwrap();
}

async fn shop(settings: &str, source: &str) -> (WorkerBench, ExecutionKey) {
    let bench = WorkerBench::new();
    queue(&bench, settings).await;
    bench.define(source).await;
    let key = bench.start("shop", "s-1").await;
    (bench, key)
}

/// All items, the oldest first.
async fn items(bench: &WorkerBench) -> Vec<ItemAggregate> {
    let views = bench.stores.assignment_views.list_items(&tenant(), &ItemFilter::default(), None, 10).await;
    let key = |item| ItemRef::Item(ItemKey { tenant: tenant(), item });
    let keys: Vec<_> = views.unwrap().into_iter().rev().map(|view| key(view.item.id)).collect();
    let loaded = bench.stores.items.load_items(&keys).await.unwrap();
    loaded.into_iter().map(|loaded| loaded.unwrap().work).collect()
}

async fn until_item(bench: &WorkerBench, status: ItemStatus) -> ItemAggregate {
    eventually(PATIENCE, || async {
        let last = items(bench).await.pop();
        last.clone().filter(|work| work.item.status == status).ok_or(last)
    })
    .await
}

async fn until_incident(bench: &WorkerBench) -> IncidentView {
    eventually(PATIENCE, || async {
        let filter = IncidentFilter { status: Some(IncidentStatus::Open), ..IncidentFilter::default() };
        let found = bench.stores.incidents.list_incidents(&tenant(), &filter, None, 10).await.unwrap();
        found.into_iter().next().ok_or("no incident")
    })
    .await
}

async fn retry(bench: &WorkerBench, event: EventId) {
    let by = DecisionRecord { actor: None, reason: None };
    let retried = bench.stores.interventions.retry_event(&tenant(), event, &by, bench.now()).await.unwrap();
    assert!(matches!(retried, RetryVerdict::Accepted { .. }), "{retried:?}");
}

fn said(view: &millstream_store::views::ExecutionView, field: &str) -> serde_json::Value {
    let context = serde_json::to_value(&view.state.context).unwrap();
    context[field].clone()
}

#[tokio::test]
async fn people_answers_are_the_action_outcome() {
    let (bench, key) = shop("overlap: 2", SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    let desk = PeopleDesk::of(&bench, SHOP);
    bench.send(&key, "go", "{}").await;
    desk.answers("ann", r#"{"good":true}"#).await;
    desk.answers("ben", r#"{"good":false}"#).await;
    let ended = bench.until_status(&key, ExecutionStatus::Completed).await;
    let result = said(&ended, "result");
    assert_eq!((&result["status"], &result["agreed"]), (&"done".into(), &false.into()), "{result}");
    // In the order of the assignments, which may be in the same millisecond.
    let said = |one: &serde_json::Value| (one["person"].clone(), one["answer"]["good"].clone());
    let mut answers: Vec<_> = result["answers"].as_array().unwrap().iter().map(said).collect();
    answers.sort_by_key(|(person, _)| person.to_string());
    assert_eq!(answers, [("ann".into(), true.into()), ("ben".into(), false.into())]);
    let [work] = &items(&bench).await[..] else { panic!() };
    assert_eq!(work.payload.as_str(), r#"{"n":7}"#);
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn item_over_attempt_limit_fails_action() {
    let (bench, key) = shop("pre_assignment_timeout: 100ms, max_attempts_total: 2", SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    let desk = PeopleDesk::of(&bench, SHOP);
    bench.send(&key, "go", "{}").await;
    let given = desk.given("ann").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    let error = said(&ended, "error");
    assert_eq!(error["class"], "item_failed", "{error}");
    assert!(error["message"].as_str().unwrap().contains("max_attempts_total"), "{error}");
    let [work] = &items(&bench).await[..] else { panic!() };
    assert_eq!(work.assignments.len(), 2, "she was given it again");
    assert!(work.assignments.values().all(|one| one.status == AssignmentStatus::Expired));
    assert!(work.assignments.contains_key(&given.id));
}

#[tokio::test]
async fn expired_item_fails_the_action() {
    let source = SHOP.replace("payload: { n: '7' }", "due: 200ms");
    let (bench, key) = shop("", &source).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    assert!(said(&ended, "error")["message"].as_str().unwrap().contains("in time"));
    until_item(&bench, ItemStatus::Failed).await;
}

#[tokio::test]
async fn queue_escalation_precedes_action_failure() {
    let settings = "pre_assignment_timeout: 100ms, max_attempts_total: 1, escalate: { event: given_up }";
    let (bench, key) = shop(settings, SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    PeopleDesk::of(&bench, SHOP).given("ann").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(said(&ended, "error")["class"], "item_escalated");
    assert_eq!(bench.applied(&key).await, ["go", "given_up"]);
}

#[tokio::test]
async fn unknown_escalation_event_fails_action() {
    let settings = "pre_assignment_timeout: 100ms, max_attempts_total: 1, escalate: { event: fire_alarm }";
    let (bench, key) = shop(settings, SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    PeopleDesk::of(&bench, SHOP).given("ann").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(bench.applied(&key).await, ["go", "unanswered"]);
}

#[tokio::test]
async fn items_of_ended_execution_are_withdrawn() {
    for end in ["stop", "millstream.cancel"] {
        let (bench, key) = shop("", SHOP).await;
        let _worker = bench.worker_with(bench.hasty());
        bench.send(&key, "go", "{}").await;
        let given = PeopleDesk::of(&bench, SHOP).given("ann").await;
        bench.send(&key, end, "{}").await;
        let withdrawn = until_item(&bench, ItemStatus::Withdrawn).await;
        assert_eq!(withdrawn.assignments[&given.id].status, AssignmentStatus::Expired, "{end}");
        assert!(withdrawn.item.reason.unwrap().contains("s-1"), "{end}");
    }
}

#[tokio::test]
async fn item_of_expired_action_is_withdrawn() {
    let source = SHOP.replace("    on_success", "    timeouts: { schedule_to_close: 300ms }\n    on_success");
    let (bench, key) = shop("", &source).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(said(&ended, "error")["class"], "schedule");
    until_item(&bench, ItemStatus::Withdrawn).await;
}

#[tokio::test]
async fn next_lease_takes_over_item() {
    let (bench, key) = shop("", SHOP).await;
    let hook = faulty::on(ServiceFault::Hang, |call| matches!(call, FaultyCall::Settle));
    let first = bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), bench.hasty());
    bench.send(&key, "go", "{}").await;
    let made = until_item(&bench, ItemStatus::Open).await;
    first.kill().await;
    let _second = bench.worker_with(bench.hasty());
    let adopted = eventually(PATIENCE, || async {
        let work = until_item(&bench, ItemStatus::Open).await;
        let newer = work.item.waiter.as_ref().is_some_and(|waiter| waiter.epoch > Epoch::FIRST);
        if newer { Ok(work) } else { Err(work) }
    })
    .await;
    assert_eq!((adopted.item.id, items(&bench).await.len()), (made.item.id, 1));
    PeopleDesk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    bench.assert_sound(&key).await;
}

/// The component that ends the item knows the first lease, which is outdated: the third lease gets the
/// escalation.
#[tokio::test]
async fn pending_escalation_reaches_next_lease() {
    let settings = "pre_assignment_timeout: 100ms, max_attempts_total: 1, escalate: { event: given_up }";
    let (bench, key) = shop(settings, SHOP).await;
    let hang = |what: fn(&FaultyCall<'_>) -> bool| {
        let hook = faulty::on(ServiceFault::Hang, what);
        bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), bench.hasty())
    };
    let first = hang(|call| matches!(call, FaultyCall::Settle | FaultyCall::DueAssignments));
    bench.send(&key, "go", "{}").await;
    until_item(&bench, ItemStatus::Open).await;
    first.kill().await;
    let leased = |epoch: i64| {
        let actions = bench.stores.execution_views.clone();
        let key = key.clone();
        async move {
            eventually(PATIENCE, || async {
                let found = actions.list_actions(&key, None, 10).await.unwrap();
                found.iter().any(|action| action.epoch >= Epoch(epoch)).then_some(()).ok_or(found)
            })
            .await;
        }
    };
    let second = hang(|call| matches!(call, FaultyCall::Import | FaultyCall::DueAssignments));
    leased(2).await;
    let desk = PeopleDesk::of(&bench, SHOP);
    desk.given("ann").await;
    eventually(PATIENCE, || async {
        let due = bench.stores.assignments.list_overdue(desk.now(), 10).await.unwrap();
        let asks: Vec<ItemCommand> =
            due.iter().map(|due| ItemCommand::for_deadline(due, desk.new_assignment_id())).collect();
        apply_commands(&desk, &asks).await;
        let status = items(&bench).await.pop().unwrap().item.status;
        if status == ItemStatus::Escalated { Ok(()) } else { Err(status) }
    })
    .await;
    second.kill().await;
    let _third = bench.worker_with(bench.hasty());
    bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(bench.applied(&key).await, ["go", "given_up"]);
}

#[tokio::test]
async fn early_answer_settles_the_action() {
    let (bench, key) = shop("", SHOP).await;
    let hook = faulty::on(ServiceFault::Unavailable, |call| matches!(call, FaultyCall::Settle));
    let stores = faulty::stores(&bench.stores, &hook);
    let _worker = bench.worker_on(stores, bench.streams.clone(), bench.options());
    bench.send(&key, "go", "{}").await;
    PeopleDesk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_state(&key, "done").await;
}

#[tokio::test]
async fn missing_queue_opens_retryable_incident() {
    let bench = WorkerBench::new();
    bench.define(SHOP).await;
    let key = bench.start("shop", "s-1").await;
    let _worker = bench.worker_with(bench.hasty());
    let event = bench.send(&key, "go", "{}").await;
    let incident = until_incident(&bench).await;
    assert_eq!(incident.class.as_str(), "target");
    assert!(incident.reason.contains("no such queue: questions; create it"), "{}", incident.reason);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Paused);
    queue(&bench, "").await;
    retry(&bench, event).await;
    PeopleDesk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
}

#[tokio::test]
async fn retried_action_creates_new_item() {
    let source = SHOP.replace("    on_failure: unanswered\n", "");
    let (bench, key) = shop("pre_assignment_timeout: 100ms, max_attempts_total: 1", &source).await;
    let _worker = bench.worker_with(bench.hasty());
    let desk = PeopleDesk::of(&bench, &source);
    let event = bench.send(&key, "go", "{}").await;
    desk.given("ann").await;
    let incident = until_incident(&bench).await;
    assert_eq!(incident.class.as_str(), "item_failed");
    retry(&bench, event).await;
    desk.answers("ben", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    let all: Vec<ItemStatus> = items(&bench).await.iter().map(|work| work.item.status).collect();
    assert_eq!(all, [ItemStatus::Failed, ItemStatus::Done]);
}

#[tokio::test]
async fn all_due_items_are_processed() {
    let (bench, _) = shop("due: 100ms", SHOP).await;
    let new = |n: usize| {
        let id = ItemId::parse(format!("i-{n}")).unwrap();
        NewQueueItem::with_defaults(id, RawJson::null())
    };
    let all: Vec<_> = (0..700).map(new).collect();
    let name = Name::parse("questions").unwrap();
    bench.stores.items.import_items(&tenant(), &name, &all, bench.now()).await.unwrap();
    let _workers = [bench.worker(), bench.worker(), bench.worker()];
    eventually(PATIENCE, || async {
        let filter = ItemFilter { status: Some(ItemStatus::Open), ..ItemFilter::default() };
        let open = bench.stores.assignment_views.list_items(&tenant(), &filter, None, 1_000).await.unwrap();
        if open.is_empty() { Ok(()) } else { Err(open.len()) }
    })
    .await;
}

#[tokio::test]
async fn action_awaits_item_without_lease() {
    let (bench, key) = shop("", SHOP).await;
    let worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    until_item(&bench, ItemStatus::Open).await;
    let view = eventually(PATIENCE, || async {
        let found = bench.stores.execution_views.list_actions(&key, None, 10).await.unwrap();
        let view = found.into_iter().next();
        view.clone().filter(|view| view.status == ActionStatus::Awaiting).ok_or(view)
    })
    .await;
    assert_eq!(view.lease_until, None);
    worker.drain().await;
    let _other = bench.worker_with(bench.hasty());
    PeopleDesk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
}
