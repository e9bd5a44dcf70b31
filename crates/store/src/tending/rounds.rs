//! The optimistic-concurrency loop: commands that lost against a concurrent commit, and those that had to
//! wait, are retried.

use std::collections::BTreeMap;

use millstream_core::id::ItemKey;

use super::around::{Around, Written};
use super::asking::{Ask, Tended};
use super::deciding::Drafted;
use super::settings::Settings;
use crate::item_store::{ItemCommit, ItemCommitted, ItemRef, LoadedItem};
use crate::{Result, StoreError};

/// Attempts of a command against concurrent commits.
const TRIES: usize = 8;

/// Applies all commands and returns the replies in order. Commands of one batch to the same item apply in
/// that order.
pub async fn tend(around: &dyn Around, asks: &[Ask]) -> Vec<Result<Tended>> {
    let mut batch = Batch { around, asks, answers: (0..asks.len()).map(|_| None).collect() };
    let (mut open, mut lost): (Vec<usize>, usize) = ((0..asks.len()).collect(), 0);
    let mut most = usize::MAX;
    while !open.is_empty() && lost < TRIES {
        let mut rest = open.split_off(open.len().min(most));
        match batch.round(&open).await {
            Ok(Round { again, anybody_was_faster }) => {
                lost += usize::from(anybody_was_faster);
                open = again;
            }
            Err(StoreError::Contention(_)) => lost += 1,
            // One of them is corrupt: retry one by one to find it.
            Err(StoreError::Corrupt(_)) if open.len() > 1 => most = 1,
            Err(error) => {
                open.iter().for_each(|at| batch.answer(*at, Err(error.clone())));
                open.clear();
            }
        }
        open.append(&mut rest);
    }
    let contended = || {
        let times = format!("the item was changed concurrently {TRIES} times in a row");
        Err(StoreError::Contention(times))
    };
    batch.answers.into_iter().map(|answer| answer.unwrap_or_else(contended)).collect()
}

/// An item and its commands.
type Group<'a> = (LoadedItem, Vec<(usize, &'a Ask)>);

struct Batch<'a> {
    around: &'a dyn Around,
    asks: &'a [Ask],
    answers: Vec<Option<Result<Tended>>>,
}

struct Round {
    /// Commands to retry.
    again: Vec<usize>,
    /// A command that waits for another one of its batch has not lost against a concurrent commit.
    anybody_was_faster: bool,
}

impl Batch<'_> {
    fn answer(&mut self, at: usize, answer: Result<Tended>) {
        if let Some(place) = self.answers.get_mut(at) {
            *place = Some(answer);
        }
    }

    async fn round(&mut self, open: &[usize]) -> Result<Round> {
        let (around, stores) = (self.around, self.around.stores());
        let asks: Vec<(usize, &Ask)> =
            open.iter().filter_map(|at| Some((*at, self.asks.get(*at)?))).collect();
        let wanted: Vec<ItemRef> = asks.iter().map(|(_, ask)| ask.of.clone()).collect();
        let found = stores.items.load_items(&wanted).await?;
        let mut groups: BTreeMap<ItemKey, Group<'_>> = BTreeMap::new();
        for ((at, ask), loaded) in asks.into_iter().zip(found) {
            match loaded {
                Some(loaded) => {
                    let entry = groups.entry(loaded.key.clone()).or_insert_with(|| (loaded, Vec::new()));
                    entry.1.push((at, ask));
                }
                None => self.answer(at, Ok(Tended::NoSuchItem)),
            }
        }
        let settings = Settings::of(stores, groups.values().map(|(loaded, _)| loaded)).await?;
        let now = around.now();
        let mut again = Vec::new();
        let (mut commits, mut drafts): (Vec<ItemCommit>, Vec<Drafted>) = (Vec::new(), Vec::new());
        for (loaded, asks) in groups.into_values() {
            let drafted = match Drafted::of(around, loaded, &asks, &settings, now).await {
                Ok(mut drafted) => drafted.commit(around).await.map(|commit| (drafted, commit)),
                Err(error) => Err(error),
            };
            match drafted {
                Ok((drafted, Some(commit))) => {
                    commits.push(commit);
                    drafts.push(drafted);
                }
                Ok((drafted, None)) => self.answered(drafted, &mut again),
                // A corrupt item, or one that cannot be settled, fails alone.
                Err(error) => asks.iter().for_each(|(at, _)| self.answer(*at, Err(error.clone()))),
            }
        }
        let anybody_was_faster = self.write(commits, drafts, &mut again).await?;
        again.sort_unstable();
        Ok(Round { again, anybody_was_faster })
    }

    /// Writes the changes; returns whether one of them conflicted.
    async fn write(
        &mut self,
        commits: Vec<ItemCommit>,
        drafts: Vec<Drafted>,
        again: &mut Vec<usize>,
    ) -> Result<bool> {
        if commits.is_empty() {
            return Ok(false);
        }
        let around = self.around;
        let settler = around.settler();
        let verdicts = around.stores().items.commit_items(settler, &commits, around.now()).await?;
        let (mut written, mut lost) = (Written::default(), false);
        for ((commit, draft), verdict) in commits.into_iter().zip(drafts).zip(verdicts) {
            match verdict {
                ItemCommitted::Done { settled, .. } => {
                    written.items.push((commit.key, commit.change.log));
                    written.settled.extend(commit.settlement.zip(settled));
                    self.answered(draft, again);
                }
                ItemCommitted::Conflict { .. } => {
                    again.extend(draft.answers.iter().map(|(at, _)| *at).chain(draft.later));
                    lost = true;
                }
            }
        }
        if !written.items.is_empty() {
            around.written(written).await;
        }
        Ok(lost)
    }

    fn answered(&mut self, draft: Drafted, again: &mut Vec<usize>) {
        draft.answers.into_iter().for_each(|(at, answer)| self.answer(at, Ok(answer)));
        again.extend(draft.later);
    }
}
