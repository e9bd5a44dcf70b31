//! The optimistic-concurrency loop: commands that lost against a concurrent commit, and those that had to
//! wait, are retried.

use std::collections::BTreeMap;

use millstream_model::id::ItemKey;

use super::command::{ItemCommand, ItemReply};
use super::decided_item::DecidedItem;
use super::environment::{ItemEnvironment, WrittenItems};
use super::item_queues::ItemQueues;
use crate::item_store::{ItemCommit, ItemCommitVerdict, ItemRef, LoadedItem};
use crate::{StoreError, StoreResult};

/// Attempts of a command against concurrent commits.
const TRIES: usize = 8;

/// Applies all commands and returns the replies in order. Commands of one batch to the same item apply in
/// that order.
pub async fn apply_commands(
    around: &dyn ItemEnvironment,
    asks: &[ItemCommand],
) -> Vec<StoreResult<ItemReply>> {
    let mut batch = ItemCommandBatch { around, asks, answers: (0..asks.len()).map(|_| None).collect() };
    let (mut open, mut lost): (Vec<usize>, usize) = ((0..asks.len()).collect(), 0);
    let mut most = usize::MAX;
    while !open.is_empty() && lost < TRIES {
        let mut rest = open.split_off(open.len().min(most));
        match batch.run_round(&open).await {
            Ok(ItemRound { again, anybody_was_faster }) => {
                lost += usize::from(anybody_was_faster);
                open = again;
            }
            Err(StoreError::Contention(_)) => lost += 1,
            // One of them is corrupt: retry one by one to find it.
            Err(StoreError::Corrupt(_)) if open.len() > 1 => most = 1,
            Err(error) => {
                open.iter().for_each(|at| batch.set_reply(*at, Err(error.clone())));
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
type ItemCommandGroup<'a> = (LoadedItem, Vec<(usize, &'a ItemCommand)>);

struct ItemCommandBatch<'a> {
    around: &'a dyn ItemEnvironment,
    asks: &'a [ItemCommand],
    answers: Vec<Option<StoreResult<ItemReply>>>,
}

struct ItemRound {
    /// Commands to retry.
    again: Vec<usize>,
    /// A command that waits for another one of its batch has not lost against a concurrent commit.
    anybody_was_faster: bool,
}

impl ItemCommandBatch<'_> {
    fn set_reply(&mut self, at: usize, answer: StoreResult<ItemReply>) {
        if let Some(place) = self.answers.get_mut(at) {
            *place = Some(answer);
        }
    }

    async fn run_round(&mut self, open: &[usize]) -> StoreResult<ItemRound> {
        let (around, stores) = (self.around, self.around.stores());
        let asks: Vec<(usize, &ItemCommand)> =
            open.iter().filter_map(|at| Some((*at, self.asks.get(*at)?))).collect();
        let wanted: Vec<ItemRef> = asks.iter().map(|(_, ask)| ask.of.clone()).collect();
        let found = stores.items.load_items(&wanted).await?;
        let mut groups: BTreeMap<ItemKey, ItemCommandGroup<'_>> = BTreeMap::new();
        for ((at, ask), loaded) in asks.into_iter().zip(found) {
            match loaded {
                Some(loaded) => {
                    let entry = groups.entry(loaded.key.clone()).or_insert_with(|| (loaded, Vec::new()));
                    entry.1.push((at, ask));
                }
                None => self.set_reply(at, Ok(ItemReply::NoSuchItem)),
            }
        }
        let settings = ItemQueues::load_for_items(stores, groups.values().map(|(loaded, _)| loaded)).await?;
        let now = around.now();
        let mut again = Vec::new();
        let (mut commits, mut drafts): (Vec<ItemCommit>, Vec<DecidedItem>) = (Vec::new(), Vec::new());
        for (loaded, asks) in groups.into_values() {
            let drafted = match DecidedItem::decide_commands(around, loaded, &asks, &settings, now).await {
                Ok(mut drafted) => drafted.take_commit(around).await.map(|commit| (drafted, commit)),
                Err(error) => Err(error),
            };
            match drafted {
                Ok((drafted, Some(commit))) => {
                    commits.push(commit);
                    drafts.push(drafted);
                }
                Ok((drafted, None)) => self.collect_replies(drafted, &mut again),
                // A corrupt item, or one that cannot be settled, fails alone.
                Err(error) => asks.iter().for_each(|(at, _)| self.set_reply(*at, Err(error.clone()))),
            }
        }
        let anybody_was_faster = self.write_drafts(commits, drafts, &mut again).await?;
        again.sort_unstable();
        Ok(ItemRound { again, anybody_was_faster })
    }

    /// Writes the changes; returns whether one of them conflicted.
    async fn write_drafts(
        &mut self,
        commits: Vec<ItemCommit>,
        drafts: Vec<DecidedItem>,
        again: &mut Vec<usize>,
    ) -> StoreResult<bool> {
        if commits.is_empty() {
            return Ok(false);
        }
        let around = self.around;
        let settler = around.settling_worker();
        let verdicts = around.stores().items.commit_items(settler, &commits, around.now()).await?;
        let (mut written, mut lost) = (WrittenItems::default(), false);
        for ((commit, draft), verdict) in commits.into_iter().zip(drafts).zip(verdicts) {
            match verdict {
                ItemCommitVerdict::Done { settled, .. } => {
                    written.items.push((commit.key, commit.change.log));
                    written.settled.extend(commit.settlement.zip(settled));
                    self.collect_replies(draft, again);
                }
                ItemCommitVerdict::Conflict { .. } => {
                    again.extend(draft.answers.iter().map(|(at, _)| *at).chain(draft.later));
                    lost = true;
                }
            }
        }
        if !written.items.is_empty() {
            around.publish_changes(written).await;
        }
        Ok(lost)
    }

    fn collect_replies(&mut self, draft: DecidedItem, again: &mut Vec<usize>) {
        draft.answers.into_iter().for_each(|(at, answer)| self.set_reply(at, Ok(answer)));
        again.extend(draft.later);
    }
}
