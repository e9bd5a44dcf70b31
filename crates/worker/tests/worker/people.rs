//! Actions performed by people: an item is created, supervised, reported, taken over, and withdrawn.

use millstream_core::assignment::{
    Assignment, AssignmentStatus, Input, ItemStatus, NewItem, QueueConfig, Waiter, Work,
};
use millstream_core::definition::{self, Format};
use millstream_core::entropy;
use millstream_core::id::{
    AssignmentId, Epoch, EventId, ExecutionKey, ItemId, ItemKey, Name, PersonId, TenantId, WorkerId,
};
use millstream_core::machine::Machine;
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, ExecutionStatus};
use millstream_core::time::Timestamp;
use millstream_store::action_store::Settlement;
use millstream_store::assignments::{Caller, Given, ItemFilter};
use millstream_store::incidents::{IncidentFilter, IncidentStatus, IncidentView};
use millstream_store::intervention::{Decision, Retried};
use millstream_store::item_store::ItemRef;
use millstream_store::tending::{self, Answered, Around, Ask, Tended, Told, Written, tend};
use millstream_store::{Result, Stores};
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;

use crate::bench::Bench;
use crate::faulty::{self, Call, Fault};

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
struct Desk<'a> {
    bench: &'a Bench,
    machine: Machine,
    name: WorkerId,
}

#[async_trait::async_trait]
impl Around for Desk<'_> {
    fn stores(&self) -> &Stores {
        &self.bench.stores
    }

    fn now(&self) -> Timestamp {
        self.bench.now()
    }

    fn fresh(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.bench.now(), &*self.bench.entropy))
    }

    fn settler(&self) -> &WorkerId {
        &self.name
    }

    async fn judge(&self, _: Answered<'_>) -> Option<Vec<Problem>> {
        Some(Vec::new())
    }

    async fn settlement(&self, waiter: &Waiter, told: Told) -> Result<Option<Settlement>> {
        let mut new_id = || self.bench.event_id();
        Ok(tending::settlement(&self.machine, waiter, &told, self.now(), &mut new_id))
    }

    async fn written(&self, written: Written) {
        for (settlement, _) in written.settled {
            self.bench.ring(&settlement.lease.key.execution).await;
        }
    }
}

impl<'a> Desk<'a> {
    fn of(bench: &'a Bench, source: &str) -> Self {
        let machine = Machine::compile(definition::parse(source, Format::Yaml).unwrap()).unwrap();
        Self { bench, machine, name: WorkerId::parse("desk").unwrap() }
    }

    /// Waits until there is an assignment for the person.
    async fn given(&self, who: &str) -> Assignment {
        eventually(PATIENCE, || async {
            let person = PersonId::parse(who).unwrap();
            let caller = Caller { tenant: tenant(), person, queues: Default::default(), next: self.fresh() };
            match self.bench.stores.assignments.next(&[caller], self.now()).await.unwrap().remove(0) {
                Given::Assigned(given) => Ok(given.assignment),
                Given::Nothing(idle) => Err(idle),
            }
        })
        .await
    }

    async fn answers(&self, who: &str, answer: &str) {
        let given = self.given(who).await;
        let (assignment, person) = (given.id, given.person.clone());
        self.does(Input::Start { assignment, person: person.clone() }).await;
        let answer = RawJson::parse(answer).unwrap();
        self.does(Input::Submit { assignment, person, answer }).await;
    }

    async fn does(&self, input: Input) {
        let (Input::Start { assignment, .. } | Input::Submit { assignment, .. }) = &input else { panic!() };
        let of = ItemRef::Assignment(tenant(), *assignment);
        let tended = tend(self, &[Ask::input(of, input)]).await.remove(0).unwrap();
        assert!(matches!(tended, Tended::Done { repeated: false, .. }), "{tended:?}");
    }
}

fn tenant() -> TenantId {
    TenantId::default_tenant()
}

async fn queue(bench: &Bench, settings: &str) {
    let config = QueueConfig::parse(&format!("{{name: questions, {settings}}}"), Format::Yaml).unwrap();
    bench.stores.queues.put_queue(&tenant(), &config, bench.now()).await.unwrap();
}

async fn shop(settings: &str, source: &str) -> (Bench, ExecutionKey) {
    let bench = Bench::new();
    queue(&bench, settings).await;
    bench.define(source).await;
    let key = bench.start("shop", "s-1").await;
    (bench, key)
}

/// All items, the oldest first.
async fn items(bench: &Bench) -> Vec<Work> {
    let views = bench.stores.assignment_views.list_items(&tenant(), &ItemFilter::default(), None, 10).await;
    let key = |item| ItemRef::Item(ItemKey { tenant: tenant(), item });
    let keys: Vec<_> = views.unwrap().into_iter().rev().map(|view| key(view.item.id)).collect();
    let loaded = bench.stores.items.load_items(&keys).await.unwrap();
    loaded.into_iter().map(|loaded| loaded.unwrap().work).collect()
}

async fn until_item(bench: &Bench, status: ItemStatus) -> Work {
    eventually(PATIENCE, || async {
        let last = items(bench).await.pop();
        last.clone().filter(|work| work.item.status == status).ok_or(last)
    })
    .await
}

async fn until_incident(bench: &Bench) -> IncidentView {
    eventually(PATIENCE, || async {
        let filter = IncidentFilter { status: Some(IncidentStatus::Open), ..IncidentFilter::default() };
        let found = bench.stores.incidents.list_incidents(&tenant(), &filter, None, 10).await.unwrap();
        found.into_iter().next().ok_or("no incident")
    })
    .await
}

async fn retry(bench: &Bench, event: EventId) {
    let by = Decision { actor: None, reason: None };
    let retried = bench.stores.interventions.retry(&tenant(), event, &by, bench.now()).await.unwrap();
    assert!(matches!(retried, Retried::Accepted { .. }), "{retried:?}");
}

fn said(view: &millstream_store::views::ExecutionView, field: &str) -> serde_json::Value {
    let context = serde_json::to_value(&view.state.context).unwrap();
    context[field].clone()
}

#[tokio::test]
async fn people_are_asked_and_what_they_say_is_the_outcome() {
    let (bench, key) = shop("overlap: 2", SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    let desk = Desk::of(&bench, SHOP);
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
async fn an_item_that_people_had_too_often_fails_the_action() {
    let (bench, key) = shop("pre_assignment_timeout: 100ms, max_attempts_total: 2", SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    let desk = Desk::of(&bench, SHOP);
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
async fn what_is_not_done_in_time_fails_the_action_though_nobody_had_it() {
    let source = SHOP.replace("payload: { n: '7' }", "due: 200ms");
    let (bench, key) = shop("", &source).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    assert!(said(&ended, "error")["message"].as_str().unwrap().contains("in time"));
    until_item(&bench, ItemStatus::Failed).await;
}

#[tokio::test]
async fn the_event_that_a_queue_escalates_to_goes_before_the_failure_of_the_action() {
    let settings = "pre_assignment_timeout: 100ms, max_attempts_total: 1, escalate: { event: given_up }";
    let (bench, key) = shop(settings, SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    Desk::of(&bench, SHOP).given("ann").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(said(&ended, "error")["class"], "item_escalated");
    assert_eq!(bench.applied(&key).await, ["go", "given_up"]);
}

#[tokio::test]
async fn an_escalation_that_the_definition_does_not_know_is_told_as_a_failure() {
    let settings = "pre_assignment_timeout: 100ms, max_attempts_total: 1, escalate: { event: fire_alarm }";
    let (bench, key) = shop(settings, SHOP).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    Desk::of(&bench, SHOP).given("ann").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(bench.applied(&key).await, ["go", "unanswered"]);
}

#[tokio::test]
async fn the_items_of_an_execution_that_has_ended_are_withdrawn() {
    for end in ["stop", "millstream.cancel"] {
        let (bench, key) = shop("", SHOP).await;
        let _worker = bench.worker_with(bench.hasty());
        bench.send(&key, "go", "{}").await;
        let given = Desk::of(&bench, SHOP).given("ann").await;
        bench.send(&key, end, "{}").await;
        let withdrawn = until_item(&bench, ItemStatus::Withdrawn).await;
        assert_eq!(withdrawn.assignments[&given.id].status, AssignmentStatus::Expired, "{end}");
        assert!(withdrawn.item.reason.unwrap().contains("s-1"), "{end}");
    }
}

#[tokio::test]
async fn an_item_whose_action_is_out_of_time_is_withdrawn() {
    let source = SHOP.replace("    on_success", "    timeouts: { schedule_to_close: 300ms }\n    on_success");
    let (bench, key) = shop("", &source).await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    let ended = bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(said(&ended, "error")["class"], "schedule");
    until_item(&bench, ItemStatus::Withdrawn).await;
}

#[tokio::test]
async fn a_lease_that_was_lost_is_followed_by_one_that_takes_the_item_over() {
    let (bench, key) = shop("", SHOP).await;
    let hook = faulty::on(Fault::Hang, |call| matches!(call, Call::Settle));
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
    Desk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    bench.assert_sound(&key).await;
}

/// The component that ends the item knows the first lease, which is outdated: the third lease gets the
/// escalation.
#[tokio::test]
async fn an_escalation_that_nobody_was_told_of_is_told_to_the_lease_that_takes_the_item_over() {
    let settings = "pre_assignment_timeout: 100ms, max_attempts_total: 1, escalate: { event: given_up }";
    let (bench, key) = shop(settings, SHOP).await;
    let hang = |what: fn(&Call<'_>) -> bool| {
        let hook = faulty::on(Fault::Hang, what);
        bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), bench.hasty())
    };
    let first = hang(|call| matches!(call, Call::Settle | Call::DueAssignments));
    bench.send(&key, "go", "{}").await;
    until_item(&bench, ItemStatus::Open).await;
    first.kill().await;
    let leased = |epoch: i64| {
        let actions = bench.stores.execution_views.clone();
        let key = key.clone();
        async move {
            eventually(PATIENCE, || async {
                let found = actions.actions(&key, None, 10).await.unwrap();
                found.iter().any(|action| action.epoch >= Epoch(epoch)).then_some(()).ok_or(found)
            })
            .await;
        }
    };
    let second = hang(|call| matches!(call, Call::Import | Call::DueAssignments));
    leased(2).await;
    let desk = Desk::of(&bench, SHOP);
    desk.given("ann").await;
    eventually(PATIENCE, || async {
        let due = bench.stores.assignments.due(desk.now(), 10).await.unwrap();
        let asks: Vec<Ask> = due.iter().map(|due| Ask::due(due, desk.fresh())).collect();
        tend(&desk, &asks).await;
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
async fn an_answer_that_comes_before_the_action_awaits_it_settles_it() {
    let (bench, key) = shop("", SHOP).await;
    let hook = faulty::on(Fault::Unavailable, |call| matches!(call, Call::Settle));
    let stores = faulty::stores(&bench.stores, &hook);
    let _worker = bench.worker_on(stores, bench.streams.clone(), bench.options());
    bench.send(&key, "go", "{}").await;
    Desk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_state(&key, "done").await;
}

#[tokio::test]
async fn a_queue_that_is_not_there_opens_an_incident_that_says_so_and_a_retry_goes_on() {
    let bench = Bench::new();
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
    Desk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
}

#[tokio::test]
async fn a_retry_of_an_action_whose_item_has_failed_asks_people_anew() {
    let source = SHOP.replace("    on_failure: unanswered\n", "");
    let (bench, key) = shop("pre_assignment_timeout: 100ms, max_attempts_total: 1", &source).await;
    let _worker = bench.worker_with(bench.hasty());
    let desk = Desk::of(&bench, &source);
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
async fn everything_that_is_due_is_looked_at_however_much_it_is() {
    let (bench, _) = shop("due: 100ms", SHOP).await;
    let new = |n: usize| {
        let id = ItemId::parse(format!("i-{n}")).unwrap();
        NewItem::plain(id, RawJson::null())
    };
    let all: Vec<_> = (0..700).map(new).collect();
    let name = Name::parse("questions").unwrap();
    bench.stores.items.import(&tenant(), &name, &all, bench.now()).await.unwrap();
    let _workers = [bench.worker(), bench.worker(), bench.worker()];
    eventually(PATIENCE, || async {
        let filter = ItemFilter { status: Some(ItemStatus::Open), ..ItemFilter::default() };
        let open = bench.stores.assignment_views.list_items(&tenant(), &filter, None, 1_000).await.unwrap();
        if open.is_empty() { Ok(()) } else { Err(open.len()) }
    })
    .await;
}

#[tokio::test]
async fn an_action_awaits_its_item_without_a_lease() {
    let (bench, key) = shop("", SHOP).await;
    let worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    until_item(&bench, ItemStatus::Open).await;
    let view = eventually(PATIENCE, || async {
        let found = bench.stores.execution_views.actions(&key, None, 10).await.unwrap();
        let view = found.into_iter().next();
        view.clone().filter(|view| view.status == ActionStatus::Awaiting).ok_or(view)
    })
    .await;
    assert_eq!(view.lease_until, None);
    worker.drain().await;
    let _other = bench.worker_with(bench.hasty());
    Desk::of(&bench, SHOP).answers("ann", "true").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
}
