//! The ingress as the environment of people's work items: settles the actions that wait for ended items,
//! and notifies.

use std::sync::Arc;

use millstream_expr::{BudgetEnd, ExprBudget, StopRule};
use millstream_model::entropy::{self, Entropy};
use millstream_model::id::{AssignmentId, PersonId, WorkerId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{ItemWaiter, QueueConfig, rules};
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::action_store::{SettledBatch, Settlement};
use millstream_store::clock::Clock;
use millstream_store::item_service::{self, ItemEnvironment, ItemOutcome, SubmittedAnswer, WrittenItems};
use millstream_store::{StoreResult, Stores};
use tokio_util::task::TaskTracker;

use super::batcher::PeopleBatcher;
use super::item_metrics;
use super::schema_cache::SchemaCache;
use crate::definition_cache::DefinitionCache;
use crate::tasks::report;

pub(crate) struct PeopleEnvironment {
    pub(super) stores: Stores,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) schemas: SchemaCache,
    me: WorkerId,
    machines: Arc<DefinitionCache>,
    told: report::SettleNotifier,
    tellers: TaskTracker,
}

impl PeopleBatcher {
    pub(crate) fn start_batchers(
        stores: &Stores,
        (clock, entropy): (&Arc<dyn Clock>, &Arc<dyn Entropy>),
        (me, machines): (WorkerId, &Arc<DefinitionCache>),
        told: report::SettleNotifier,
        tasks: &TaskTracker,
    ) -> Self {
        let shell = PeopleEnvironment {
            stores: stores.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            schemas: SchemaCache::default(),
            me,
            machines: machines.clone(),
            told,
            tellers: tasks.clone(),
        };
        Self::with_environment(shell, tasks)
    }
}

#[async_trait::async_trait]
impl ItemEnvironment for PeopleEnvironment {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn new_assignment_id(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.clock.now(), &*self.entropy))
    }

    fn settling_worker(&self) -> &WorkerId {
        &self.me
    }

    async fn validate_answer(&self, answered: SubmittedAnswer<'_>) -> Option<Vec<ValidationProblem>> {
        let SubmittedAnswer { tenant: _, queue, payload, person, answer } = answered;
        let by_schema = match &queue.schema {
            Some(schema) => self.schemas.judge_at_once(schema, answer)?,
            None => Vec::new(),
        };
        apply_rules(queue, (answer, payload), person, by_schema, EvaluationPool::inline())
    }

    async fn build_settlement(
        &self,
        waiter: &ItemWaiter,
        told: ItemOutcome,
    ) -> StoreResult<Option<Settlement>> {
        let (key, definition) = (&waiter.action, &waiter.definition);
        let tenant = &key.execution.tenant;
        let found = self.machines.find_machine(tenant, &definition.name, Some(definition.version)).await?;
        let Some((_, machine)) = found else { return Ok(None) };
        let now = self.clock.now();
        let mut new_id = || entropy::event_id(now, &*self.entropy);
        Ok(item_service::settle_waiter(&machine, waiter, &told, now, &mut new_id))
    }

    async fn publish_changes(&self, written: WrittenItems) {
        written.items.iter().flat_map(|(_, log)| log).for_each(item_metrics::count_entry);
        let (batch, verdicts): (Vec<_>, Vec<_>) = written.settled.into_iter().unzip();
        if !batch.is_empty() {
            // The store does not return whether actions became ready, so workers are woken in any case.
            let settled = SettledBatch { unleased: verdicts.len(), verdicts, ..SettledBatch::default() };
            self.told.notify_settled(batch, &settled, &self.tellers);
        }
    }
}

impl PeopleEnvironment {
    /// All problems of an answer, without a step limit: on the task of the request, with schema and rules
    /// on threads of their own.
    pub(super) async fn judge_answer(
        &self,
        queue: &QueueConfig,
        payload: &RawJson,
        (person, answer): (&PersonId, &RawJson),
    ) -> Vec<ValidationProblem> {
        let by_schema = match &queue.schema {
            Some(schema) => self.schemas.judge_answer(schema, answer).await,
            None => Vec::new(),
        };
        let (queue, answer, payload, person) =
            (queue.clone(), answer.clone(), payload.clone(), person.clone());
        let judged = self
            .machines
            .evaluations
            .run(move |stop| apply_rules(&queue, (&answer, &payload), &person, by_schema, stop));
        judged.await.ok().flatten().unwrap_or_else(|| {
            vec![ValidationProblem::new("", "the rules exceeded their time limit; submit the answer again")]
        })
    }
}

/// Applies the rules of a queue to an answer; `None` where the stop rule ended the evaluation.
fn apply_rules(
    queue: &QueueConfig,
    (answer, payload): (&RawJson, &RawJson),
    person: &PersonId,
    by_schema: Vec<ValidationProblem>,
    stop: StopRule<'_>,
) -> Option<Vec<ValidationProblem>> {
    let budget = ExprBudget::of_step(stop);
    let problems = rules::check_answer(queue, answer, payload, person, by_schema, &budget);
    (budget.end() != Some(BudgetEnd::Stopped)).then_some(problems)
}
