//! Batches people's requests: many in one transaction, in two independent lanes, one for requests for work
//! and one for commands on items.

use std::sync::Arc;

use futures::FutureExt;
use millstream_model::entropy;
use millstream_model::id::{AssignmentId, ItemKey, TenantId};
use millstream_people::assignment::{ItemAggregate, ItemInput};
use millstream_store::StoreResult;
use millstream_store::assignments::{AssignmentCaller, NextAssignment};
use millstream_store::item_service::{
    ItemCommand, ItemCommandKind, ItemReply, ValidatedAnswer, apply_commands,
};
use millstream_store::item_store::{ItemRef, LoadedItem};
use tokio_util::task::TaskTracker;

use super::environment::PeopleEnvironment;
use super::item_metrics;
use super::refusals::{self, missing_verdict};
use super::schema_cache::SchemaCache;
use crate::coalescer::Coalescer;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Retries of judging an answer when its queue or item changed in the meantime.
const JUDGED_AGAIN: usize = 4;

pub(crate) struct PeopleBatcher {
    next: Coalescer<AssignmentCaller, NextAssignment>,
    tend: Coalescer<ItemCommand, StoreResult<ItemReply>>,
    items: Coalescer<ItemRef, Option<LoadedItem>>,
    pub(super) shell: Arc<PeopleEnvironment>,
}

impl PeopleBatcher {
    pub(super) fn with_environment(shell: PeopleEnvironment, tasks: &TaskTracker) -> Self {
        let shell = Arc::new(shell);
        let at = shell.clone();
        let next = move |callers: Vec<AssignmentCaller>| {
            let shell = at.clone();
            async move {
                let given = shell.stores.assignments.assign_next(&callers, shell.clock.now()).await?;
                given.iter().for_each(item_metrics::count_given);
                Ok(given)
            }
            .boxed()
        };
        let at = shell.clone();
        let tending = move |asks: Vec<ItemCommand>| {
            let shell = at.clone();
            async move { Ok(apply_commands(&*shell, &asks).await) }.boxed()
        };
        let store = shell.stores.items.clone();
        let items = move |wanted: Vec<ItemRef>| {
            let store = store.clone();
            async move { store.load_items(&wanted).await }.boxed()
        };
        Self {
            next: Coalescer::start_coalescer(next, tasks),
            tend: Coalescer::start_coalescer(tending, tasks),
            items: Coalescer::start_coalescer(items, tasks),
            shell,
        }
    }

    pub(crate) fn schema_cache(&self) -> &SchemaCache {
        &self.shell.schemas
    }

    /// A fresh id for an assignment that the request may create.
    pub(crate) fn new_assignment_id(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.shell.clock.now(), &*self.shell.entropy))
    }

    pub(super) async fn next_work(&self, caller: AssignmentCaller) -> StoreResult<Option<NextAssignment>> {
        Ok(self.next.ask_batched(vec![caller]).await?.pop())
    }

    pub(crate) async fn load_item(&self, of: ItemRef) -> StoreResult<Option<LoadedItem>> {
        Ok(self.items.ask_batched(vec![of]).await?.pop().flatten())
    }

    /// Applies a command. An answer whose judging is slow is judged here, on the task of its request,
    /// because the batch is shared by all tenants.
    pub(super) async fn apply_judged(&self, mut ask: ItemCommand) -> Result<ItemReply, RequestRefusal> {
        for _ in 0..JUDGED_AGAIN {
            let tended = self.tend.ask_batched(vec![ask.clone()]).await?.pop().ok_or_else(missing_verdict)?;
            let (queue, payload) = match tended.map_err(refusals::contended_item)? {
                ItemReply::Unjudged { queue, payload } => (queue, payload),
                tended @ (ItemReply::Done { .. }
                | ItemReply::Refused { .. }
                | ItemReply::Invalid(_)
                | ItemReply::NotAdopted(_)
                | ItemReply::NoSuchItem) => return Ok(tended),
            };
            let ItemCommandKind::Input(ItemInput::Submit { person, answer, .. }) = &ask.what else {
                return Err(missing_verdict());
            };
            let problems = self.shell.judge_answer(&queue, &payload, (person, answer)).await;
            ask.judged = Some(ValidatedAnswer { queue, payload, problems });
        }
        Err(RequestRefusal::new(
            RefusalKind::Busy,
            "the queue changed while the answer was judged; submit the answer again",
        ))
    }

    /// Applies a command to an assignment: returns the item afterwards, or the refusal.
    pub(crate) async fn apply_to_assignment(
        &self,
        tenant: &TenantId,
        assignment: AssignmentId,
        input: ItemInput,
    ) -> Result<ItemAggregate, RequestRefusal> {
        let none = || RequestRefusal::not_found("assignment", assignment);
        self.apply_command(
            ItemCommand::for_input(ItemRef::Assignment(tenant.clone(), assignment), input),
            none,
        )
        .await
    }

    /// Applies a command to an item.
    pub(crate) async fn apply_to_item(
        &self,
        key: &ItemKey,
        input: ItemInput,
    ) -> Result<ItemAggregate, RequestRefusal> {
        let none = || RequestRefusal::not_found("item", &key.item);
        self.apply_command(ItemCommand::for_input(ItemRef::Item(key.clone()), input), none).await
    }

    async fn apply_command(
        &self,
        ask: ItemCommand,
        none: impl FnOnce() -> RequestRefusal,
    ) -> Result<ItemAggregate, RequestRefusal> {
        match self.apply_judged(ask).await? {
            ItemReply::Done { work, .. } => Ok(*work),
            ItemReply::Refused { refusal, work: _ } => Err(refusals::item_refusal(&refusal)),
            ItemReply::Invalid(problems) => Err(refusals::invalid_answer(problems)),
            ItemReply::NoSuchItem => Err(none()),
            ItemReply::NotAdopted(_) | ItemReply::Unjudged { .. } => Err(missing_verdict()),
        }
    }
}
