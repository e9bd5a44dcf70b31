//! `task_for`: a people item, whose end is the outcome of the action.
//!
//! The item's id is derived from the action's key, so that an attempt after a lost answer finds its item
//! again, and takes it over under its current lease. From then on the action awaits the item, and the write
//! that ends the item settles the action as well. An item that ended before the action became ready belongs
//! to an earlier life of the action: unless it was done another one is created, because the retry of an
//! action asks people again.
//!
//! An item over the quota `queue_items` of its tenant waits until there is capacity.
//!
//! Without the queue the item cannot be created, and the execution is not at fault: an operator decides.

use std::collections::BTreeSet;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::entropy::derived_event_id;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, ExecutionKey, ItemId, ItemKey, Name};
use millstream_model::problem::ValidationProblem;
use millstream_model::quota::{CountedQuota, QuotaRefusal};
use millstream_model::status::ActionStatus;
use millstream_people::assignment::{AdoptionRefusal, ItemInput, ItemStatus, ItemWaiter};
use millstream_store::action_store::LeasedAction;
use millstream_store::item_service::{ItemCommand, ItemReply, apply_commands};
use millstream_store::item_store::{ImportVerdict, ItemRef};
use millstream_store::{StoreError, StoreResult};
use millstream_workflow::definition::{ActionKind, ActionTimeouts};
use millstream_workflow::machine::{ActionInput, TaskForInput};
use millstream_workflow::schedule;

use super::attempt_contract::{PerformOutcome, internal_error};
use super::emit::store_unavailable;
use super::performer::ActionPerformer;

/// Upper bound on items per action; more retries by an operator are unreasonable.
const ITEMS: u32 = 20;
/// Actions of an execution read at once.
const PAGE: usize = 256;

pub(crate) async fn perform_task_for(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &TaskForInput,
    timeouts: &ActionTimeouts,
) -> PerformOutcome {
    match create_or_adopt_item(performer, action, input).await {
        Ok(Some(done)) => done,
        Ok(None) => {
            let left = schedule::remaining_time(timeouts, action.ready_at, performer.env.now());
            PerformOutcome::Awaiting { until: left.map(|left| performer.env.now().plus(left)) }
        }
        Err(error) => PerformOutcome::Attempt(store_unavailable(&error)),
    }
}

/// `None` while another holder of the action will report the outcome.
async fn create_or_adopt_item(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &TaskForInput,
) -> StoreResult<Option<PerformOutcome>> {
    let lease = &action.lease;
    let tenant = &lease.key.execution.tenant;
    for number in 1..=ITEMS {
        let Some(item) = item_key_of(&lease.key, action.revision, number) else { break };
        if let Some(refusal) = quota_refusal(performer, &item).await? {
            return Ok(Some(PerformOutcome::over_quota(&performer.env, action, refusal)));
        }
        let new = input.to_new_item(item.item.clone(), waiter_of_action(action), performer.env.now());
        let items = &performer.env.stores.items;
        let imported = items.import_items(tenant, &input.queue, &[new], performer.env.now()).await?;
        match imported.into_iter().next() {
            Some(ImportVerdict::Created) => {}
            Some(ImportVerdict::Repeat) => match adopt_item(performer, action, &item).await? {
                ItemTakeover::Ours => {}
                ItemTakeover::Over(done) => return Ok(Some(done)),
                ItemTakeover::OfEarlierLife => continue,
            },
            Some(ImportVerdict::Taken) => {
                return Ok(Some(PerformOutcome::Attempt(item_of_other_action(&item))));
            }
            Some(ImportVerdict::Refused(problems)) => {
                return Ok(Some(PerformOutcome::Attempt(refused_item(&input.queue, &problems))));
            }
            Some(ImportVerdict::NoQueue) => {
                return Ok(Some(PerformOutcome::Attempt(missing_queue(&input.queue))));
            }
            None => return Err(StoreError::Unavailable("the store returned no result".to_owned())),
        }
        withdraw_if_execution_ended(performer, &lease.key.execution, &item).await?;
        return Ok(None);
    }
    let message = format!("limit of {ITEMS} items per action reached");
    Ok(Some(PerformOutcome::Attempt(AttemptOutcome::Pause { error: internal_error(message) })))
}

/// The quota that refuses one more item; an item that exists already is not one more.
async fn quota_refusal(performer: &ActionPerformer, item: &ItemKey) -> StoreResult<Option<QuotaRefusal>> {
    let stores = &performer.env.stores;
    let admitted =
        performer.leasing.quotas.admit_row(&*stores.quotas, &item.tenant, CountedQuota::QueueItems).await?;
    let Err(refusal) = admitted else { return Ok(None) };
    let found = stores.items.load_items(&[ItemRef::Item(item.clone())]).await?;
    Ok(if found.into_iter().flatten().next().is_some() { None } else { Some(refusal) })
}

/// State after an attempt to take over an existing item.
enum ItemTakeover {
    Ours,
    Over(PerformOutcome),
    OfEarlierLife,
}

async fn adopt_item(
    performer: &ActionPerformer,
    action: &LeasedAction,
    item: &ItemKey,
) -> StoreResult<ItemTakeover> {
    let ask = ItemCommand::for_adoption(ItemRef::Item(item.clone()), waiter_of_action(action));
    let adopted = apply_commands(performer, &[ask]).await.into_iter().next();
    Ok(match adopted.unwrap_or(Ok(ItemReply::NoSuchItem))? {
        ItemReply::Done { told: None, .. } => ItemTakeover::Ours,
        ItemReply::Done { told: Some(told), work, .. } => match told.status {
            ItemStatus::Done => ItemTakeover::Over(PerformOutcome::ItemEnded(Box::new(told))),
            ItemStatus::Open | ItemStatus::Failed | ItemStatus::Withdrawn | ItemStatus::Escalated => {
                let earlier = work.item.ended_at.is_some_and(|ended| ended <= action.ready_at);
                if earlier {
                    ItemTakeover::OfEarlierLife
                } else {
                    ItemTakeover::Over(PerformOutcome::ItemEnded(Box::new(told)))
                }
            }
        },
        ItemReply::NotAdopted(AdoptionRefusal::NobodyWaits | AdoptionRefusal::Belongs(_)) => {
            ItemTakeover::Over(PerformOutcome::Attempt(item_of_other_action(item)))
        }
        // A later attempt has it.
        ItemReply::NotAdopted(why @ AdoptionRefusal::Stale) => {
            ItemTakeover::Over(PerformOutcome::Attempt(retry_attempt(why.to_string())))
        }
        ItemReply::Refused { refusal, .. } => {
            ItemTakeover::Over(PerformOutcome::Attempt(retry_attempt(refusal.to_string())))
        }
        ItemReply::Invalid(_) | ItemReply::Unjudged { .. } | ItemReply::NoSuchItem => {
            let gone = StoreError::Contention(format!("the item {} is gone", item.item));
            ItemTakeover::Over(PerformOutcome::Attempt(store_unavailable(&gone)))
        }
    })
}

fn waiter_of_action(action: &LeasedAction) -> ItemWaiter {
    ItemWaiter {
        action: action.lease.key.clone(),
        epoch: action.lease.epoch,
        event_id: action.event_id,
        definition: action.definition.clone(),
        attempt: action.attempt,
        revision: action.revision,
        traceparent: action.traceparent.clone(),
    }
}

/// The same key gives the same item.
fn item_key_of(key: &ActionKey, revision: i32, number: u32) -> Option<ItemKey> {
    let life = if number > 1 { format!(" {number}") } else { String::new() };
    let id = derived_event_id(&format!("item {}{life}", key.with_revision(revision)));
    let item = ItemId::parse(format!("action:{id}")).ok()?;
    Some(ItemKey { tenant: key.execution.tenant.clone(), item })
}

fn missing_queue(queue: &Name) -> AttemptOutcome {
    let message = format!("no such queue: {queue}; create it (PUT /v1/queues/{queue}), then retry");
    AttemptOutcome::Pause { error: ActionFailure { class: ErrorClass::Target, message, status: None } }
}

/// The content shown to people comes from the execution; the number and skills of people are between the
/// definition and the queue.
fn refused_item(queue: &Name, problems: &[ValidationProblem]) -> AttemptOutcome {
    let all: Vec<String> = problems.iter().map(|problem| format!("task_for.{problem}")).collect();
    let message = format!("the queue {queue} refuses the item: {}", all.join("; "));
    if problems.iter().any(|problem| problem.path == "payload") {
        return AttemptOutcome::Permanent {
            error: ActionFailure { class: ErrorClass::Input, message, status: None },
        };
    }
    AttemptOutcome::Pause { error: ActionFailure { class: ErrorClass::Target, message, status: None } }
}

fn item_of_other_action(item: &ItemKey) -> AttemptOutcome {
    let message = format!("item {} exists and belongs to another action", item.item);
    AttemptOutcome::Pause { error: ActionFailure { class: ErrorClass::Target, message, status: None } }
}

fn retry_attempt(message: String) -> AttemptOutcome {
    AttemptOutcome::Transient { error: internal_error(message), retry_after: None }
}

/// Closes the race with the withdrawal of an ended execution's items, which may have looked before this item
/// existed. This check follows the creation, so one of the two sees the other.
async fn withdraw_if_execution_ended(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
    item: &ItemKey,
) -> StoreResult<()> {
    let found = performer.env.stores.execution_views.find_executions(std::slice::from_ref(execution)).await?;
    if found.into_iter().flatten().any(|view| view.state.phase.is_ended()) {
        withdraw_items(performer, execution, std::slice::from_ref(item)).await?;
    }
    Ok(())
}

/// The schedule of the action is missed: withdraws its item.
pub(crate) async fn give_up_item(performer: &ActionPerformer, action: &LeasedAction) {
    let input = action.input.as_ref().map(|input| input.decode());
    let Some(Ok(ActionInput::TaskFor(_))) = input else { return };
    let key = &action.lease.key;
    if let Err(error) = withdraw_all(performer, &key.execution, vec![(key.clone(), action.revision)]).await {
        tracing::warn!(action.key = %key, error = %error, "could not withdraw an obsolete item");
    }
}

/// The execution of this action has ended: withdraws its items from people.
pub(crate) async fn withdraw_open_items(
    performer: &ActionPerformer,
    action: &LeasedAction,
) -> StoreResult<usize> {
    let execution = &action.lease.key.execution;
    let asking = actions_with_items(performer, action).await?;
    let (mut withdrawn, mut after) = (0, None);
    while !asking.is_empty() {
        let page = performer.env.stores.execution_views.list_actions(execution, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(millstream_store::views::ActionRecord::place);
        let asked = page.into_iter().filter(|view| asking.contains(&view.key.action));
        let asked = asked.filter(|view| may_be_open(view.status));
        let asked = asked.map(|view| (view.key, view.revision)).collect();
        withdrawn += withdraw_all(performer, execution, asked).await?;
        if is_last {
            break;
        }
    }
    Ok(withdrawn)
}

/// The actions of its definition that create people items.
async fn actions_with_items(
    performer: &ActionPerformer,
    action: &LeasedAction,
) -> StoreResult<BTreeSet<Name>> {
    let (stores, tenant) = (&performer.env.stores, &action.lease.key.execution.tenant);
    let program = performer.programs.get(&*stores.definitions, tenant, &action.definition).await?;
    let Ok(program) = program else { return Ok(BTreeSet::new()) };
    let actions = program.machine().into_iter().flat_map(|machine| machine.definition().actions());
    let asking = actions.filter(|(_, spec)| matches!(spec.kind, ActionKind::TaskFor(_)));
    Ok(asking.map(|(name, _)| name.clone()).collect())
}

/// Whether the item of an action with this status may be open.
fn may_be_open(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Awaiting
        | ActionStatus::Leased
        | ActionStatus::Ready
        | ActionStatus::Failed
        | ActionStatus::Cancelled => true,
        ActionStatus::Waiting | ActionStatus::Standby | ActionStatus::Succeeded | ActionStatus::Skipped => {
            false
        }
    }
}

/// Covers the items of all lives of each action; only the last one may be open.
async fn withdraw_all(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
    mut actions: Vec<(ActionKey, i32)>,
) -> StoreResult<usize> {
    let mut withdrawn = 0;
    for number in 1..=ITEMS {
        let items: Vec<_> = actions
            .into_iter()
            .filter_map(|(key, revision)| Some((item_key_of(&key, revision, number)?, (key, revision))))
            .collect();
        if items.is_empty() {
            break;
        }
        let wanted: Vec<ItemRef> = items.iter().map(|(item, _)| ItemRef::Item(item.clone())).collect();
        let found = performer.env.stores.items.load_items(&wanted).await?;
        let (mut open, mut later) = (Vec::new(), Vec::new());
        for ((item, action), found) in items.into_iter().zip(found) {
            match found.map(|loaded| loaded.work.item.status) {
                Some(ItemStatus::Open) => open.push(item),
                Some(ItemStatus::Failed | ItemStatus::Withdrawn | ItemStatus::Escalated) => {
                    later.push(action)
                }
                Some(ItemStatus::Done) | None => {}
            }
        }
        withdrawn += open.len();
        withdraw_items(performer, execution, &open).await?;
        actions = later;
    }
    Ok(withdrawn)
}

async fn withdraw_items(
    performer: &ActionPerformer,
    execution: &ExecutionKey,
    items: &[ItemKey],
) -> StoreResult<()> {
    let asks: Vec<ItemCommand> = items
        .iter()
        .map(|item| {
            let reason = Some(format!("the execution {} no longer waits for it", execution.execution));
            let by = Some("execution".to_owned());
            ItemCommand::for_input(ItemRef::Item(item.clone()), ItemInput::Withdraw { reason, by })
        })
        .collect();
    for tended in apply_commands(performer, &asks).await {
        match tended? {
            ItemReply::Done { .. }
            | ItemReply::Refused { .. }
            | ItemReply::Invalid(_)
            | ItemReply::Unjudged { .. }
            | ItemReply::NotAdopted(_)
            | ItemReply::NoSuchItem => {}
        }
    }
    Ok(())
}
