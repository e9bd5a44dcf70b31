//! Which device gets a seat: those that can take it, scored, with a card for each that says why.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::device::{Candidate, unit};
use super::fit::{Unfit, fit};
use super::row::Run;
use super::status::Status;
use crate::election::{self, Member};
use crate::id::DeviceId;
use crate::time::Timestamp;

/// What each part of a score is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    pub load: f64,
    pub quality: f64,
    pub rank: f64,
    pub relevant: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { load: 40.0, quality: 30.0, rank: 20.0, relevant: 10.0 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    Chosen { device: DeviceId, how: How, decision: Box<Decision> },
    Nobody { outlook: Outlook, decision: Box<Decision> },
}

/// Why this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It created the run, can do it and wants to.
    Creator,
    /// It is the elected coordinator, and the run asks for that.
    Coordinator,
    Score,
}

/// What there is to hope for when nobody was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// Somebody could, and has no room now.
    Busy,
    /// All who could have had their chance.
    Declined,
    /// Nobody can.
    Nobody,
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "all devices are busy",
            Self::Declined => "all devices have declined",
            Self::Nobody => "no device is able",
        })
    }
}

/// How many cards are kept with a decision.
pub const MAX_CARDS: usize = 100;

/// What is kept of a choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<How>,
    /// The best first, then those that could not.
    pub cards: Vec<Card>,
    /// How many more there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    pub device: DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfit: Option<Unfit>,
}

/// Of a score, weighed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parts {
    pub load: f64,
    pub quality: f64,
    pub rank: f64,
    pub relevant: f64,
}

/// `rotation` decides between equals: a number that goes on with every choice gives each its turn.
pub fn choose(
    run: &Run,
    seat: u16,
    roster: &[Candidate],
    weights: &Weights,
    rotation: u64,
    now: Timestamp,
) -> Choice {
    let ranks = ranks(roster);
    let mut cards: Vec<Card> = roster
        .iter()
        .map(|candidate| {
            let device = candidate.device.id.clone();
            match fit(run, seat, candidate, now) {
                Ok(()) => {
                    let rank = ranks.get(&candidate.device.id).copied().unwrap_or(0.0);
                    let parts = score(run, candidate, rank, weights);
                    let score = parts.load + parts.quality + parts.rank + parts.relevant;
                    Card { device, score: Some(score), parts: Some(parts), unfit: None }
                }
                Err(unfit) => Card { device, score: None, parts: None, unfit: Some(unfit) },
            }
        })
        .collect();
    cards.sort_by(|one, other| {
        let by_score = match (one.score, other.score) {
            (Some(one), Some(other)) => other.total_cmp(&one),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_score.then_with(|| one.device.cmp(&other.device))
    });
    let chosen = creator(run, seat, &cards)
        .map(|device| (device, How::Creator))
        .or_else(|| coordinator(run, roster, &cards, now).map(|device| (device, How::Coordinator)))
        .or_else(|| best(&cards, rotation).map(|device| (device, How::Score)));
    let outlook = outlook(&cards);
    let left_out = cards.len().saturating_sub(MAX_CARDS);
    cards.truncate(MAX_CARDS);
    let how = chosen.as_ref().map(|(_, how)| *how);
    let decision = Box::new(Decision { how, cards, left_out });
    match chosen {
        Some((device, how)) => Choice::Chosen { device, how, decision },
        None => Choice::Nobody { outlook, decision },
    }
}

/// Places in the election over all that are registered.
fn ranks(roster: &[Candidate]) -> BTreeMap<&DeviceId, f64> {
    let order = election::order(roster.iter().map(member));
    let of = order.len();
    order.into_iter().enumerate().map(|(place, id)| (id, election::rank(place, of))).collect()
}

fn member(candidate: &Candidate) -> Member<'_, DeviceId> {
    Member { id: &candidate.device.id, capability: u64::from(candidate.device.capability) }
}

fn score(run: &Run, candidate: &Candidate, rank: f64, weights: &Weights) -> Parts {
    let has = run.prefer.intersection(&candidate.device.capabilities).count();
    #[expect(clippy::cast_precision_loss, reason = "a hundred at most")]
    let relevant = if run.prefer.is_empty() { 1.0 } else { has as f64 / run.prefer.len() as f64 };
    Parts {
        load: weights.load * (1.0 - candidate.load()),
        quality: weights.quality * unit(candidate.device.quality),
        rank: weights.rank * rank,
        relevant: weights.relevant * relevant,
    }
}

fn is_fit(cards: &[Card], device: &DeviceId) -> bool {
    cards.iter().any(|card| card.device == *device && card.unfit.is_none())
}

/// The device that created the run comes first, once: for a seat that nobody was asked about yet.
fn creator(run: &Run, seat: u16, cards: &[Card]) -> Option<DeviceId> {
    let is_new = run.seat(seat)?.status() == Status::Created;
    let creator = run.created_by.as_ref().filter(|_| run.creator_willing && is_new)?;
    is_fit(cards, creator).then(|| creator.clone())
}

/// Of those that may be elected and are there.
fn coordinator(run: &Run, roster: &[Candidate], cards: &[Card], now: Timestamp) -> Option<DeviceId> {
    if !run.prefer_coordinator {
        return None;
    }
    let there = roster.iter().filter(|candidate| {
        let device = &candidate.device;
        device.coordinates && !device.paused && now.since(device.seen_at) <= run.settings.reachable
    });
    let elected = election::coordinator(there.map(member))?;
    is_fit(cards, elected).then(|| elected.clone())
}

/// The best, or one of those that are equally good.
fn best(cards: &[Card], rotation: u64) -> Option<DeviceId> {
    const EQUAL: f64 = 1e-9;
    let most = cards.first()?.score?;
    let equal: Vec<&Card> =
        cards.iter().take_while(|card| card.score.is_some_and(|score| most - score <= EQUAL)).collect();
    let count = u64::try_from(equal.len()).unwrap_or(1).max(1);
    let turn = usize::try_from(rotation % count).unwrap_or(0);
    equal.get(turn).map(|card| card.device.clone())
}

fn outlook(cards: &[Card]) -> Outlook {
    let any = |meant: fn(&Unfit) -> bool| cards.iter().any(|card| card.unfit.as_ref().is_some_and(meant));
    if any(|unfit| matches!(unfit, Unfit::NoRoom { .. })) {
        Outlook::Busy
    } else if any(|unfit| matches!(unfit, Unfit::PassedOver)) {
        Outlook::Declined
    } else {
        Outlook::Nobody
    }
}
