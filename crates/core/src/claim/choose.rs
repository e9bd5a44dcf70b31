//! Selection of a device for a seat: eligible devices are scored, and a card per device explains the result.

use std::fmt;

use serde::Serialize;

use super::device::unit;
use super::fit::{Bar, Unfit, bar};
use super::roster::{Listed, Roster};
use super::row::Run;
use super::status::Status;
use crate::election;
use crate::id::DeviceId;
use crate::time::Timestamp;

/// The weight of each part of a score.
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

/// The rule by which the device was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It created the run, is eligible and willing.
    Creator,
    /// It is the elected coordinator, and the run prefers the coordinator.
    Coordinator,
    Score,
}

/// The outlook when no device is eligible now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// An able device exists, but has no free capacity now.
    Busy,
    /// Every able device has already been asked since the last rest.
    Declined,
    /// No device is able.
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

/// Maximum number of cards stored with a decision.
pub const MAX_CARDS: usize = 100;

/// The stored record of a choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<How>,
    /// Best scores first, then the ineligible devices.
    pub cards: Vec<Card>,
    /// Number of devices without a card.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
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

/// The weighted parts of a score.
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

/// `rotation` breaks ties between equal scores: a counter that increases with every choice (round robin).
pub fn choose(
    run: &Run,
    seat: u16,
    roster: &Roster,
    weights: &Weights,
    rotation: u64,
    now: Timestamp,
) -> Choice {
    let (mut able, mut barred): (Vec<Able<'_>>, Vec<Barred<'_>>) = (Vec::new(), Vec::new());
    for (listed, open) in roster.iter() {
        match bar(run, seat, &listed.device, open, now) {
            None => able.push((listed, score(run, listed, open, weights))),
            Some(bar) => barred.push((listed, open, bar)),
        }
    }
    // The roster is sorted by id; the stable sort keeps that order among equal scores.
    able.sort_by(|(_, one), (_, other)| other.sum().total_cmp(&one.sum()));
    let chosen = creator(run, seat, &able)
        .map(|device| (device, How::Creator))
        .or_else(|| coordinator(run, roster, &able, now).map(|device| (device, How::Coordinator)))
        .or_else(|| best(&able, rotation).map(|device| (device, How::Score)));
    let how = chosen.as_ref().map(|(_, how)| *how);
    let (count, outlook) = (able.len() + barred.len(), outlook(&barred));
    let mut cards: Vec<Card> = able.iter().take(MAX_CARDS).map(Card::of_able).collect();
    if cards.len() < MAX_CARDS {
        barred.sort_by_key(|(_, _, bar)| distance(*bar));
        let rest = MAX_CARDS - cards.len();
        cards.extend(barred.iter().take(rest).map(|barred| Card::of_barred(run, barred)));
    }
    let decision = Box::new(Decision { how, left_out: count - cards.len(), cards });
    match chosen {
        Some((device, how)) => Choice::Chosen { device, how, decision },
        None => Choice::Nobody { outlook, decision },
    }
}

/// An eligible device with its score.
type Able<'a> = (&'a Listed, Parts);
/// An ineligible device with its open seats and the reason.
type Barred<'a> = (&'a Listed, u32, Bar);

impl Card {
    /// Rounded to hundredths: cards are shown to people and stored for years, a hundred at a time.
    fn of_able((listed, parts): &Able<'_>) -> Self {
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        let told = Parts {
            load: hundredths(parts.load),
            quality: hundredths(parts.quality),
            rank: hundredths(parts.rank),
            relevant: hundredths(parts.relevant),
        };
        let (device, score) = (listed.device.id.clone(), hundredths(parts.sum()));
        Self { device, score: Some(score), parts: Some(told), unfit: None }
    }

    fn of_barred(run: &Run, (listed, open, bar): &Barred<'_>) -> Self {
        let unfit = Unfit::of(*bar, run, &listed.device, *open);
        Self { device: listed.device.id.clone(), score: None, parts: None, unfit: Some(unfit) }
    }
}

/// Distance from eligibility: the cards of devices that are only busy are kept first.
fn distance(bar: Bar) -> u8 {
    match bar {
        Bar::NoRoom => 0,
        Bar::PassedOver | Bar::OnAnotherSeat => 1,
        Bar::Incapable | Bar::Unreachable | Bar::Paused | Bar::Battery => 2,
    }
}

fn score(run: &Run, listed: &Listed, open: u32, weights: &Weights) -> Parts {
    let device = &*listed.device;
    let has = run.prefer.intersection(&device.capabilities).count();
    #[expect(clippy::cast_precision_loss, reason = "a hundred at most")]
    let relevant = if run.prefer.is_empty() { 1.0 } else { has as f64 / run.prefer.len() as f64 };
    Parts {
        load: weights.load * (1.0 - device.load_with(open)),
        quality: weights.quality * unit(device.quality),
        rank: weights.rank * listed.rank,
        relevant: weights.relevant * relevant,
    }
}

fn is_able(able: &[Able<'_>], device: &DeviceId) -> bool {
    able.iter().any(|(listed, _)| listed.device.id == *device)
}

/// The device that created the run takes precedence once: for a seat that was never assigned.
fn creator(run: &Run, seat: u16, able: &[Able<'_>]) -> Option<DeviceId> {
    let is_new = run.seat(seat)?.status() == Status::Created;
    let creator = run.created_by.as_ref().filter(|_| run.creator_willing && is_new)?;
    is_able(able, creator).then(|| creator.clone())
}

/// The elected coordinator among reachable devices that may coordinate.
fn coordinator(run: &Run, roster: &Roster, able: &[Able<'_>], now: Timestamp) -> Option<DeviceId> {
    if !run.prefer_coordinator {
        return None;
    }
    let there = roster.iter().map(|(listed, _)| listed).filter(|listed| {
        let device = &listed.device;
        device.coordinates && !device.paused && now.since(device.seen_at) <= run.settings.reachable
    });
    let elected = election::coordinator(there.map(Listed::member))?;
    is_able(able, elected).then(|| elected.clone())
}

/// The best device; round robin among equal scores.
fn best(able: &[Able<'_>], rotation: u64) -> Option<DeviceId> {
    const EQUAL: f64 = 1e-9;
    let (_, first) = able.first()?;
    let is_equal = |(_, parts): &&Able<'_>| first.sum() - parts.sum() <= EQUAL;
    let count = able.iter().take_while(is_equal).count();
    let turn = rotation % u64::try_from(count).unwrap_or(1).max(1);
    able.get(usize::try_from(turn).unwrap_or(0)).map(|(listed, _)| listed.device.id.clone())
}

fn outlook(barred: &[Barred<'_>]) -> Outlook {
    let any = |meant: Bar| barred.iter().any(|(_, _, bar)| *bar == meant);
    if any(Bar::NoRoom) {
        Outlook::Busy
    } else if any(Bar::PassedOver) {
        Outlook::Declined
    } else {
        Outlook::Nobody
    }
}
