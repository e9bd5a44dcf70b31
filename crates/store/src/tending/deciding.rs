//! Decides the commands to one item, each on the result of the one before.

use std::collections::BTreeMap;

use millstream_core::assignment::stats::{self, Totals, Whose};
use millstream_core::assignment::{
    Adopted, AssignmentStatus, Change, Input, Stepped, Waiter, Work, adopt, step,
};
use millstream_core::time::Timestamp;

use super::around::{Answered, Around};
use super::asking::{Ask, JudgedAnswer, Tended, What};
use super::settings::Settings;
use crate::Result;
use crate::item_store::{ItemCommit, LoadedItem};

/// An item with its commands, by their places in the batch.
#[derive(Debug)]
pub(super) struct Drafted {
    loaded: LoadedItem,
    /// The item after the decisions so far.
    work: Work,
    change: Option<Change>,
    totals: BTreeMap<Whose, Totals>,
    /// The reply to each command if the change is written.
    pub(super) answers: Vec<(usize, Tended)>,
    /// Commands that wait for the write.
    pub(super) later: Vec<usize>,
}

impl Drafted {
    pub(super) async fn of(
        around: &dyn Around,
        loaded: LoadedItem,
        asks: &[(usize, &Ask)],
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Self> {
        let work = loaded.work.clone();
        let (answers, later) = (Vec::with_capacity(asks.len()), Vec::new());
        let mut draft = Self { loaded, work, change: None, totals: BTreeMap::new(), answers, later };
        for (at, ask) in asks {
            match &ask.what {
                // An ended item settles its waiter with the write, and an adoption is written alone: a batch
                // never mixes two waiters.
                What::Input(_) if draft.is_closed() => draft.later.push(*at),
                What::Adopt(_) if draft.change.is_some() => draft.later.push(*at),
                What::Input(input) => {
                    let answer = draft.input(around, input, ask.judged.as_ref(), settings, now).await?;
                    draft.answers.push((*at, answer));
                }
                What::Adopt(waiter) => {
                    let answer = draft.adopt(waiter, settings)?;
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

    async fn input(
        &mut self,
        around: &dyn Around,
        input: &Input,
        judged: Option<&JudgedAnswer>,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Tended> {
        let tenant = &self.loaded.key.tenant;
        let setting = settings.setting(tenant, &self.work.item.queue)?;
        if let Input::Submit { assignment, person, answer } = input
            && let Some(one) = self.work.assignments.get(assignment)
            && (one.status, &one.person) == (AssignmentStatus::InProgress, person)
        {
            let (queue, payload) = (setting.queue, &self.work.payload);
            let judged = judged.filter(|judged| *judged.queue == *queue && judged.payload == *payload);
            let problems = match judged {
                Some(judged) => Some(judged.problems.clone()),
                None => around.judge(Answered { tenant, queue, payload, person, answer }).await,
            };
            match problems {
                Some(problems) if problems.is_empty() => {}
                Some(problems) => return Ok(Tended::Invalid(problems)),
                None => {
                    return Ok(Tended::Unjudged { queue: Box::new(queue.clone()), payload: payload.clone() });
                }
            }
        }
        let work = || Box::new(self.work.clone());
        Ok(match step(&self.work, setting, input, now) {
            Err(refusal) => Tended::Refused { refusal, work: work() },
            Ok(Stepped::Repeated) => Tended::Done { work: work(), repeated: true, told: None },
            Ok(Stepped::Changed(change)) => {
                self.take(*change);
                Tended::Done { work: Box::new(self.work.clone()), repeated: false, told: None }
            }
        })
    }

    fn adopt(&mut self, waiter: &Waiter, settings: &Settings) -> Result<Tended> {
        let queue = settings.view(&self.loaded.key.tenant, &self.work.item.queue)?;
        Ok(match adopt(&self.work, &queue.config, waiter) {
            Err(why) => Tended::NotAdopted(why),
            Ok(Adopted { change, told }) => {
                let repeated = change.is_none();
                change.into_iter().for_each(|change| self.take(*change));
                Tended::Done { work: Box::new(self.work.clone()), repeated, told }
            }
        })
    }

    fn take(&mut self, next: Change) {
        for (whose, added) in stats::added(&self.work, &next) {
            self.totals.entry(whose).or_default().merge(&added);
        }
        self.work = next.work.clone();
        self.change = Some(match self.change.take() {
            Some(change) => change.then(next),
            None => next,
        });
    }

    /// The write, if there is one, with the settlement of the waiting action.
    pub(super) async fn commit(&mut self, around: &dyn Around) -> Result<Option<ItemCommit>> {
        let Some(change) = self.change.take() else { return Ok(None) };
        let settlement = match (&change.work.item.waiter, change.told.clone()) {
            (Some(waiter), Some(told)) => around.settlement(waiter, told).await?,
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
