//! Which device gets a seat: those that can take it, scored, with a card for each that says why.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

use super::device::unit;
use super::fit::{Unfit, fitness};
use super::roster::{Listed, Roster};
use super::row::Run;
use super::status::Status;
use crate::election;
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

impl Parts {
    fn sum(&self) -> f64 {
        self.load + self.quality + self.rank + self.relevant
    }
}

/// `rotation` decides between equals: a number that goes on with every choice gives each its turn.
pub fn choose(
    run: &Run,
    seat: u16,
    roster: &Roster,
    weights: &Weights,
    rotation: u64,
    now: Timestamp,
) -> Choice {
    let look = |listed| (listed, fitness(run, seat, listed, now).map(|()| score(run, listed, weights)));
    let mut looks: Vec<Look<'_>> = roster.iter().map(look).collect();
    // The roster is in the order of ids, and equals stay in theirs.
    looks.sort_by(|(_, one), (_, other)| match (one, other) {
        (Ok(one), Ok(other)) => other.sum().total_cmp(&one.sum()),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(one), Err(other)) => distance(one).cmp(&distance(other)),
    });
    let chosen = creator(run, seat, &looks)
        .map(|device| (device, How::Creator))
        .or_else(|| coordinator(run, roster, &looks, now).map(|device| (device, How::Coordinator)))
        .or_else(|| best(&looks, rotation).map(|device| (device, How::Score)));
    let how = chosen.as_ref().map(|(_, how)| *how);
    let left_out = looks.len().saturating_sub(MAX_CARDS);
    let decision =
        Box::new(Decision { how, cards: looks.iter().take(MAX_CARDS).map(card).collect(), left_out });
    match chosen {
        Some((device, how)) => Choice::Chosen { device, how, decision },
        None => Choice::Nobody { outlook: outlook(&looks), decision },
    }
}

/// A device, and what it is worth or why it cannot.
type Look<'a> = (&'a Listed, Result<Parts, Unfit>);

fn card((listed, found): &Look<'_>) -> Card {
    let device = listed.device.id.clone();
    match found {
        Ok(parts) => Card { device, score: Some(parts.sum()), parts: Some(*parts), unfit: None },
        Err(unfit) => Card { device, score: None, parts: None, unfit: Some(unfit.clone()) },
    }
}

/// How far somebody is from being asked: the cards of those who are only busy are not the ones left out.
fn distance(unfit: &Unfit) -> u8 {
    match unfit {
        Unfit::NoRoom { .. } => 0,
        Unfit::PassedOver | Unfit::OnAnotherSeat => 1,
        Unfit::Incapable { .. } | Unfit::Unreachable { .. } | Unfit::Paused | Unfit::Battery { .. } => 2,
    }
}

fn score(run: &Run, listed: &Listed, weights: &Weights) -> Parts {
    let device = &*listed.device;
    let has = run.prefer.intersection(&device.capabilities).count();
    #[expect(clippy::cast_precision_loss, reason = "a hundred at most")]
    let relevant = if run.prefer.is_empty() { 1.0 } else { has as f64 / run.prefer.len() as f64 };
    Parts {
        load: weights.load * (1.0 - device.load_with(listed.open)),
        quality: weights.quality * unit(device.quality),
        rank: weights.rank * listed.rank,
        relevant: weights.relevant * relevant,
    }
}

fn is_fit(looks: &[Look<'_>], device: &DeviceId) -> bool {
    looks.iter().any(|(listed, found)| listed.device.id == *device && found.is_ok())
}

/// The device that created the run comes first, once: for a seat that nobody was asked about yet.
fn creator(run: &Run, seat: u16, looks: &[Look<'_>]) -> Option<DeviceId> {
    let is_new = run.seat(seat)?.status() == Status::Created;
    let creator = run.created_by.as_ref().filter(|_| run.creator_willing && is_new)?;
    is_fit(looks, creator).then(|| creator.clone())
}

/// Of those that may be elected and are there.
fn coordinator(run: &Run, roster: &Roster, looks: &[Look<'_>], now: Timestamp) -> Option<DeviceId> {
    if !run.prefer_coordinator {
        return None;
    }
    let there = roster.iter().filter(|listed| {
        let device = &listed.device;
        device.coordinates && !device.paused && now.since(device.seen_at) <= run.settings.reachable
    });
    let elected = election::coordinator(there.map(Listed::member))?;
    is_fit(looks, elected).then(|| elected.clone())
}

/// The best, or one of those that are equally good.
fn best(looks: &[Look<'_>], rotation: u64) -> Option<DeviceId> {
    const EQUAL: f64 = 1e-9;
    let score = |(_, found): &Look<'_>| found.as_ref().ok().map(Parts::sum);
    let most = score(looks.first()?)?;
    let is_equal = |look: &&Look<'_>| score(look).is_some_and(|score| most - score <= EQUAL);
    let count = looks.iter().take_while(is_equal).count();
    let turn = rotation % u64::try_from(count).unwrap_or(1).max(1);
    looks.get(usize::try_from(turn).unwrap_or(0)).map(|(listed, _)| listed.device.id.clone())
}

fn outlook(looks: &[Look<'_>]) -> Outlook {
    let any = |meant: fn(&Unfit) -> bool| looks.iter().any(|(_, found)| found.as_ref().is_err_and(meant));
    if any(|unfit| matches!(unfit, Unfit::NoRoom { .. })) {
        Outlook::Busy
    } else if any(|unfit| matches!(unfit, Unfit::PassedOver)) {
        Outlook::Declined
    } else {
        Outlook::Nobody
    }
}
