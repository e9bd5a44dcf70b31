//! The ingress as the environment of people's work items: settles the actions that wait for ended items,
//! and notifies.

use std::sync::Arc;

use millstream_core::assignment::{QueueConfig, Waiter, rules};
use millstream_core::entropy::{self, Entropy};
use millstream_core::expr::{Budget, BudgetEnd, StopRule};
use millstream_core::id::{AssignmentId, PersonId, WorkerId};
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::action_store::{Settled, Settlement};
use millstream_store::clock::Clock;
use millstream_store::tending::{self, Answered, Around, Told, Written};
use millstream_store::{Result, Stores};
use tokio_util::task::TaskTracker;

use super::counted;
use super::desk::Desk;
use super::judging::Schemas;
use crate::machines::Machines;
use crate::tasks::report;

pub(crate) struct Shell {
    pub(super) stores: Stores,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) schemas: Schemas,
    me: WorkerId,
    machines: Arc<Machines>,
    told: report::Told,
    tellers: TaskTracker,
}

impl Desk {
    pub(crate) fn start(
        stores: &Stores,
        (clock, entropy): (&Arc<dyn Clock>, &Arc<dyn Entropy>),
        (me, machines): (WorkerId, &Arc<Machines>),
        told: report::Told,
        tasks: &TaskTracker,
    ) -> Self {
        let shell = Shell {
            stores: stores.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            schemas: Schemas::default(),
            me,
            machines: machines.clone(),
            told,
            tellers: tasks.clone(),
        };
        Self::of(shell, tasks)
    }
}

#[async_trait::async_trait]
impl Around for Shell {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn fresh(&self) -> AssignmentId {
        AssignmentId(entropy::uuid_v7(self.clock.now(), &*self.entropy))
    }

    fn settler(&self) -> &WorkerId {
        &self.me
    }

    async fn judge(&self, answered: Answered<'_>) -> Option<Vec<Problem>> {
        let Answered { tenant: _, queue, payload, person, answer } = answered;
        let by_schema = match &queue.schema {
            Some(schema) => self.schemas.judge_at_once(schema, answer)?,
            None => Vec::new(),
        };
        apply_rules(queue, (answer, payload), person, by_schema, EvaluationPool::inline())
    }

    async fn settlement(&self, waiter: &Waiter, told: Told) -> Result<Option<Settlement>> {
        let (key, definition) = (&waiter.action, &waiter.definition);
        let tenant = &key.execution.tenant;
        let found = self.machines.find(tenant, &definition.name, Some(definition.version)).await?;
        let Some((_, machine)) = found else { return Ok(None) };
        let now = self.clock.now();
        let mut new_id = || entropy::event_id(now, &*self.entropy);
        Ok(tending::settlement(&machine, waiter, &told, now, &mut new_id))
    }

    async fn written(&self, written: Written) {
        written.items.iter().flat_map(|(_, log)| log).for_each(counted::entry);
        let (batch, verdicts): (Vec<_>, Vec<_>) = written.settled.into_iter().unzip();
        if !batch.is_empty() {
            // The store does not return whether actions became ready, so workers are woken in any case.
            let settled = Settled { unleased: verdicts.len(), verdicts, ..Settled::default() };
            self.told.of(batch, &settled, &self.tellers);
        }
    }
}

impl Shell {
    /// All problems of an answer, without a step limit: on the task of the request, with schema and rules
    /// on threads of their own.
    pub(super) async fn judge_answer(
        &self,
        queue: &QueueConfig,
        payload: &RawJson,
        (person, answer): (&PersonId, &RawJson),
    ) -> Vec<Problem> {
        let by_schema = match &queue.schema {
            Some(schema) => self.schemas.judge(schema, answer).await,
            None => Vec::new(),
        };
        let (queue, answer, payload, person) =
            (queue.clone(), answer.clone(), payload.clone(), person.clone());
        let judged = self
            .machines
            .evaluations
            .run(move |stop| apply_rules(&queue, (&answer, &payload), &person, by_schema, stop));
        judged.await.ok().flatten().unwrap_or_else(|| {
            vec![Problem::new("", "the rules exceeded their time limit; submit the answer again")]
        })
    }
}

/// Applies the rules of a queue to an answer; `None` where the stop rule ended the evaluation.
fn apply_rules(
    queue: &QueueConfig,
    (answer, payload): (&RawJson, &RawJson),
    person: &PersonId,
    by_schema: Vec<Problem>,
    stop: StopRule<'_>,
) -> Option<Vec<Problem>> {
    let budget = Budget::of_step(stop);
    let problems = rules::check(queue, answer, payload, person, by_schema, &budget);
    (budget.end() != Some(BudgetEnd::Stopped)).then_some(problems)
}
