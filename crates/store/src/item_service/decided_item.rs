//! Decides the commands to one item, each on the result of the one before.

use std::collections::BTreeMap;

use millstream_model::time::Timestamp;
use millstream_people::assignment::stats::{self, AssignmentTotals, AssignmentTotalsKey};
use millstream_people::assignment::{
    AssignmentStatus, ItemAdoption, ItemAggregate, ItemChange, ItemInput, ItemStepOutcome, ItemWaiter,
    adopt_item, step_item,
};

use super::command::{ItemCommand, ItemCommandKind, ItemReply, ValidatedAnswer};
use super::environment::{ItemEnvironment, SubmittedAnswer};
use super::item_queues::ItemQueues;
use crate::StoreResult;
use crate::item_store::{ItemCommit, LoadedItem};

/// An item with its commands, by their places in the batch.
#[derive(Debug)]
pub(super) struct DecidedItem {
    loaded: LoadedItem,
    /// The item after the decisions so far.
    work: ItemAggregate,
    change: Option<ItemChange>,
    totals: BTreeMap<AssignmentTotalsKey, AssignmentTotals>,
    /// The reply to each command if the change is written.
    pub(super) answers: Vec<(usize, ItemReply)>,
    /// Commands that wait for the write.
    pub(super) later: Vec<usize>,
}

impl DecidedItem {
    pub(super) async fn decide_commands(
        around: &dyn ItemEnvironment,
        loaded: LoadedItem,
        asks: &[(usize, &ItemCommand)],
        settings: &ItemQueues,
        now: Timestamp,
    ) -> StoreResult<Self> {
        let work = loaded.work.clone();
        let (answers, later) = (Vec::with_capacity(asks.len()), Vec::new());
        let mut draft = Self { loaded, work, change: None, totals: BTreeMap::new(), answers, later };
        for (at, ask) in asks {
            match &ask.what {
                // An ended item settles its waiter with the write, and an adoption is written alone: a batch
                // never mixes two waiters.
                ItemCommandKind::Input(_) if draft.is_closed() => draft.later.push(*at),
                ItemCommandKind::Adopt(_) if draft.change.is_some() => draft.later.push(*at),
                ItemCommandKind::Input(input) => {
                    let answer = draft.apply_input(around, input, ask.judged.as_ref(), settings, now).await?;
                    draft.answers.push((*at, answer));
                }
                ItemCommandKind::Adopt(waiter) => {
                    let answer = draft.apply_adoption(waiter, settings)?;
                    draft.answers.push((*at, answer));
                }
            }
        }
        Ok(draft)
    }

    fn is_closed(&self) -> bool {
        self.change.as_ref().is_some_and(|change| {
            change.told.is_some() || change.work.item.waiter != self.loaded.work.item.waiter
        })
    }

    async fn apply_input(
        &mut self,
        around: &dyn ItemEnvironment,
        input: &ItemInput,
        judged: Option<&ValidatedAnswer>,
        settings: &ItemQueues,
        now: Timestamp,
    ) -> StoreResult<ItemReply> {
        let tenant = &self.loaded.key.tenant;
        let setting = settings.queue_setting(tenant, &self.work.item.queue)?;
        if let ItemInput::Submit { assignment, person, answer } = input
            && let Some(one) = self.work.assignments.get(assignment)
            && (one.status, &one.person) == (AssignmentStatus::InProgress, person)
        {
            let (queue, payload) = (setting.queue, &self.work.payload);
            let judged = judged.filter(|judged| *judged.queue == *queue && judged.payload == *payload);
            let problems = match judged {
                Some(judged) => Some(judged.problems.clone()),
                None => {
                    around.validate_answer(SubmittedAnswer { tenant, queue, payload, person, answer }).await
                }
            };
            match problems {
                Some(problems) if problems.is_empty() => {}
                Some(problems) => return Ok(ItemReply::Invalid(problems)),
                None => {
                    return Ok(ItemReply::Unjudged {
                        queue: Box::new(queue.clone()),
                        payload: payload.clone(),
                    });
                }
            }
        }
        let work = || Box::new(self.work.clone());
        Ok(match step_item(&self.work, setting, input, now) {
            Err(refusal) => ItemReply::Refused { refusal, work: work() },
            Ok(ItemStepOutcome::Repeated) => ItemReply::Done { work: work(), repeated: true, told: None },
            Ok(ItemStepOutcome::Changed(change)) => {
                self.merge_change(*change);
                ItemReply::Done { work: Box::new(self.work.clone()), repeated: false, told: None }
            }
        })
    }

    fn apply_adoption(&mut self, waiter: &ItemWaiter, settings: &ItemQueues) -> StoreResult<ItemReply> {
        let queue = settings.queue_view(&self.loaded.key.tenant, &self.work.item.queue)?;
        Ok(match adopt_item(&self.work, &queue.config, waiter) {
            Err(why) => ItemReply::NotAdopted(why),
            Ok(ItemAdoption { change, told }) => {
                let repeated = change.is_none();
                change.into_iter().for_each(|change| self.merge_change(*change));
                ItemReply::Done { work: Box::new(self.work.clone()), repeated, told }
            }
        })
    }

    fn merge_change(&mut self, next: ItemChange) {
        for (whose, added) in stats::totals_added(&self.work, &next) {
            self.totals.entry(whose).or_default().merge(&added);
        }
        self.work = next.work.clone();
        self.change = Some(match self.change.take() {
            Some(change) => change.merge_next(next),
            None => next,
        });
    }

    /// The write, if there is one, with the settlement of the waiting action.
    pub(super) async fn take_commit(
        &mut self,
        around: &dyn ItemEnvironment,
    ) -> StoreResult<Option<ItemCommit>> {
        let Some(change) = self.change.take() else { return Ok(None) };
        let settlement = match (&change.work.item.waiter, change.told.clone()) {
            (Some(waiter), Some(told)) => around.build_settlement(waiter, told).await?,
            (Some(_) | None, Some(_) | None) => None,
        };
        Ok(Some(ItemCommit {
            key: self.loaded.key.clone(),
            expected: self.loaded.version,
            change,
            totals: std::mem::take(&mut self.totals),
            settlement,
        }))
    }
}
