//! Batches people's requests: many in one transaction, in two independent lanes, one for requests for work
//! and one for commands on items.

use std::sync::Arc;

use futures::FutureExt;
use millstream_core::assignment::{Input, Work};
use millstream_core::entropy;
use millstream_core::id::{AssignmentId, ItemKey, TenantId};
use millstream_store::Result as StoreResult;
use millstream_store::assignments::{Caller, Given};
use millstream_store::item_store::{ItemRef, LoadedItem};
use millstream_store::tending::{Ask, JudgedAnswer, Tended, What, tend};
use tokio_util::task::TaskTracker;

use super::counted;
use super::judging::Schemas;
use super::refused::{self, silent};
use super::shell::Shell;
use crate::http::problem::{Kind, Problem};
use crate::lookup::Lookup;

/// Retries of judging an answer when its queue or item changed in the meantime.
const JUDGED_AGAIN: usize = 4;

pub(crate) struct Desk {
    next: Lookup<Caller, Given>,
    tend: Lookup<Ask, StoreResult<Tended>>,
    items: Lookup<ItemRef, Option<LoadedItem>>,
    shell: Arc<Shell>,
}

impl Desk {
    pub(super) fn of(shell: Shell, tasks: &TaskTracker) -> Self {
        let shell = Arc::new(shell);
        let at = shell.clone();
        let next = move |callers: Vec<Caller>| {
            let shell = at.clone();
            async move {
                let given = shell.stores.assignments.next(&callers, shell.clock.now()).await?;
                given.iter().for_each(counted::given);
                Ok(given)
            }
            .boxed()
        };
        let at = shell.clone();
        let tending = move |asks: Vec<Ask>| {
            let shell = at.clone();
            async move { Ok(tend(&*shell, &asks).await) }.boxed()
        };
        let store = shell.stores.items.clone();
        let items = move |wanted: Vec<ItemRef>| {
            let store = store.clone();
            async move { store.load_items(&wanted).await }.boxed()
        };
        Self {
            next: Lookup::start(next, tasks),
            tend: Lookup::start(tending, tasks),
            items: Lookup::start(items, tasks),
            shell,
        }
    }

    pub(crate) fn schemas(&self) -> &Schemas {
        &self.shell.schemas
    }

    /// A fresh id for an assignment that the request may create.
    pub(crate) fn fresh(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.shell.clock.now(), &*self.shell.entropy))
    }

    pub(super) async fn next(&self, caller: Caller) -> StoreResult<Option<Given>> {
        Ok(self.next.ask(vec![caller]).await?.pop())
    }

    pub(crate) async fn item(&self, of: ItemRef) -> StoreResult<Option<LoadedItem>> {
        Ok(self.items.ask(vec![of]).await?.pop().flatten())
    }

    /// Applies a command. An answer whose judging is slow is judged here, on the task of its request,
    /// because the batch is shared by all tenants.
    pub(super) async fn tended(&self, mut ask: Ask) -> Result<Tended, Problem> {
        for _ in 0..JUDGED_AGAIN {
            let tended = self.tend.ask(vec![ask.clone()]).await?.pop().ok_or_else(silent)?;
            let (queue, payload) = match tended.map_err(refused::contended)? {
                Tended::Unjudged { queue, payload } => (queue, payload),
                tended @ (Tended::Done { .. }
                | Tended::Refused { .. }
                | Tended::Invalid(_)
                | Tended::NotAdopted(_)
                | Tended::NoSuchItem) => return Ok(tended),
            };
            let What::Input(Input::Submit { person, answer, .. }) = &ask.what else { return Err(silent()) };
            let problems = self.shell.judge_answer(&queue, &payload, (person, answer)).await;
            ask.judged = Some(JudgedAnswer { queue, payload, problems });
        }
        Err(Problem::new(
            Kind::Busy,
            "the queue changed while the answer was judged; submit the answer again",
        ))
    }

    /// Applies a command to an assignment: returns the item afterwards, or the refusal.
    pub(crate) async fn about(
        &self,
        tenant: &TenantId,
        assignment: AssignmentId,
        input: Input,
    ) -> Result<Work, Problem> {
        let none = || Problem::not_found("assignment", assignment);
        self.act(Ask::input(ItemRef::Assignment(tenant.clone(), assignment), input), none).await
    }

    /// Applies a command to an item.
    pub(crate) async fn about_item(&self, key: &ItemKey, input: Input) -> Result<Work, Problem> {
        let none = || Problem::not_found("item", &key.item);
        self.act(Ask::input(ItemRef::Item(key.clone()), input), none).await
    }

    async fn act(&self, ask: Ask, none: impl FnOnce() -> Problem) -> Result<Work, Problem> {
        match self.tended(ask).await? {
            Tended::Done { work, .. } => Ok(*work),
            Tended::Refused { refusal, work: _ } => Err(refused::refused(&refusal)),
            Tended::Invalid(problems) => Err(refused::invalid_answer(problems)),
            Tended::NoSuchItem => Err(none()),
            Tended::NotAdopted(_) | Tended::Unjudged { .. } => Err(silent()),
        }
    }
}
