//! Selection of a device for a seat: eligible devices are scored, and a card per device explains the result.

use std::fmt;

use millstream_model::id::DeviceId;
use millstream_model::time::Timestamp;
use serde::Serialize;

use super::device::clamp_unit;
use super::eligibility::{DeviceIneligibility, DeviceIneligibilityKind, ineligibility_of};
use super::roster::{DeviceRoster, RankedDevice};
use super::run::RunRecord;
use super::status::SeatStatus;
use crate::election;

/// The weight of each part of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelectionWeights {
    pub load: f64,
    pub quality: f64,
    pub rank: f64,
    pub relevant: f64,
}

impl Default for SelectionWeights {
    fn default() -> Self {
        Self { load: 40.0, quality: 30.0, rank: 20.0, relevant: 10.0 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum DeviceChoice {
    Chosen { device: DeviceId, how: DeviceChoiceReason, decision: Box<DeviceDecision> },
    Nobody { outlook: SeatOutlook, decision: Box<DeviceDecision> },
}

/// The rule by which the device was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoiceReason {
    /// It created the run, is eligible and willing.
    Creator,
    /// It is the elected coordinator, and the run prefers the coordinator.
    Coordinator,
    Score,
}

/// The outlook when no device is eligible now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatOutlook {
    /// An able device exists, but has no free capacity now.
    Busy,
    /// Every able device has already been asked since the last rest.
    Declined,
    /// No device is able.
    Nobody,
}

impl fmt::Display for SeatOutlook {
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
pub struct DeviceDecision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<DeviceChoiceReason>,
    /// Best scores first, then the ineligible devices.
    pub cards: Vec<DeviceCard>,
    /// Number of devices without a card.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceCard {
    pub device: DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<ScoreParts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfit: Option<DeviceIneligibility>,
}

/// The weighted parts of a score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScoreParts {
    pub load: f64,
    pub quality: f64,
    pub rank: f64,
    pub relevant: f64,
}

impl ScoreParts {
    fn total_score(&self) -> f64 {
        self.load + self.quality + self.rank + self.relevant
    }
}

/// `rotation` breaks ties between equal scores: a counter that increases with every choice (round robin).
pub fn choose_device(
    run: &RunRecord,
    seat: u16,
    roster: &DeviceRoster,
    weights: &SelectionWeights,
    rotation: u64,
    now: Timestamp,
) -> DeviceChoice {
    let (mut able, mut barred): (Vec<EligibleDevice<'_>>, Vec<IneligibleDevice<'_>>) =
        (Vec::new(), Vec::new());
    for (listed, open) in roster.iter() {
        match ineligibility_of(run, seat, &listed.device, open, now) {
            None => able.push((listed, score_device(run, listed, open, weights))),
            Some(bar) => barred.push((listed, open, bar)),
        }
    }
    // The roster is sorted by id; the stable sort keeps that order among equal scores.
    able.sort_by(|(_, one), (_, other)| other.total_score().total_cmp(&one.total_score()));
    let chosen = eligible_creator(run, seat, &able)
        .map(|device| (device, DeviceChoiceReason::Creator))
        .or_else(|| {
            eligible_coordinator(run, roster, &able, now)
                .map(|device| (device, DeviceChoiceReason::Coordinator))
        })
        .or_else(|| best_device(&able, rotation).map(|device| (device, DeviceChoiceReason::Score)));
    let how = chosen.as_ref().map(|(_, how)| *how);
    let (count, outlook) = (able.len() + barred.len(), outlook_of(&barred));
    let mut cards: Vec<DeviceCard> = able.iter().take(MAX_CARDS).map(DeviceCard::of_eligible).collect();
    if cards.len() < MAX_CARDS {
        barred.sort_by_key(|(_, _, bar)| distance_to_eligibility(*bar));
        let rest = MAX_CARDS - cards.len();
        cards.extend(barred.iter().take(rest).map(|barred| DeviceCard::of_ineligible(run, barred)));
    }
    let decision = Box::new(DeviceDecision { how, left_out: count - cards.len(), cards });
    match chosen {
        Some((device, how)) => DeviceChoice::Chosen { device, how, decision },
        None => DeviceChoice::Nobody { outlook, decision },
    }
}

/// An eligible device with its score.
type EligibleDevice<'a> = (&'a RankedDevice, ScoreParts);
/// An ineligible device with its open seats and the reason.
type IneligibleDevice<'a> = (&'a RankedDevice, u32, DeviceIneligibilityKind);

impl DeviceCard {
    /// Rounded to hundredths: cards are shown to people and stored for years, a hundred at a time.
    fn of_eligible((listed, parts): &EligibleDevice<'_>) -> Self {
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        let told = ScoreParts {
            load: hundredths(parts.load),
            quality: hundredths(parts.quality),
            rank: hundredths(parts.rank),
            relevant: hundredths(parts.relevant),
        };
        let (device, score) = (listed.device.id.clone(), hundredths(parts.total_score()));
        Self { device, score: Some(score), parts: Some(told), unfit: None }
    }

    fn of_ineligible(run: &RunRecord, (listed, open, bar): &IneligibleDevice<'_>) -> Self {
        let unfit = DeviceIneligibility::with_details(*bar, run, &listed.device, *open);
        Self { device: listed.device.id.clone(), score: None, parts: None, unfit: Some(unfit) }
    }
}

/// Distance from eligibility: the cards of devices that are only busy are kept first.
fn distance_to_eligibility(bar: DeviceIneligibilityKind) -> u8 {
    match bar {
        DeviceIneligibilityKind::NoRoom => 0,
        DeviceIneligibilityKind::PassedOver | DeviceIneligibilityKind::OnAnotherSeat => 1,
        DeviceIneligibilityKind::Incapable
        | DeviceIneligibilityKind::Unreachable
        | DeviceIneligibilityKind::Paused
        | DeviceIneligibilityKind::Battery => 2,
    }
}

fn score_device(run: &RunRecord, listed: &RankedDevice, open: u32, weights: &SelectionWeights) -> ScoreParts {
    let device = &*listed.device;
    let has = run.prefer.intersection(&device.capabilities).count();
    #[expect(clippy::cast_precision_loss, reason = "a hundred at most")]
    let relevant = if run.prefer.is_empty() { 1.0 } else { has as f64 / run.prefer.len() as f64 };
    ScoreParts {
        load: weights.load * (1.0 - device.load_with(open)),
        quality: weights.quality * clamp_unit(device.quality),
        rank: weights.rank * listed.rank,
        relevant: weights.relevant * relevant,
    }
}

fn is_eligible(able: &[EligibleDevice<'_>], device: &DeviceId) -> bool {
    able.iter().any(|(listed, _)| listed.device.id == *device)
}

/// The device that created the run takes precedence once: for a seat that was never assigned.
fn eligible_creator(run: &RunRecord, seat: u16, able: &[EligibleDevice<'_>]) -> Option<DeviceId> {
    let is_new = run.seat(seat)?.status() == SeatStatus::Created;
    let creator = run.created_by.as_ref().filter(|_| run.creator_willing && is_new)?;
    is_eligible(able, creator).then(|| creator.clone())
}

/// The elected coordinator among reachable devices that may coordinate.
fn eligible_coordinator(
    run: &RunRecord,
    roster: &DeviceRoster,
    able: &[EligibleDevice<'_>],
    now: Timestamp,
) -> Option<DeviceId> {
    if !run.prefer_coordinator {
        return None;
    }
    let there = roster.iter().map(|(listed, _)| listed).filter(|listed| {
        let device = &listed.device;
        device.coordinates && !device.paused && now.since(device.seen_at) <= run.settings.reachable
    });
    let elected = election::elect_coordinator(there.map(RankedDevice::election_member))?;
    is_eligible(able, elected).then(|| elected.clone())
}

/// The best device; round robin among equal scores.
fn best_device(able: &[EligibleDevice<'_>], rotation: u64) -> Option<DeviceId> {
    const EQUAL: f64 = 1e-9;
    let (_, first) = able.first()?;
    let is_equal = |(_, parts): &&EligibleDevice<'_>| first.total_score() - parts.total_score() <= EQUAL;
    let count = able.iter().take_while(is_equal).count();
    let turn = rotation % u64::try_from(count).unwrap_or(1).max(1);
    able.get(usize::try_from(turn).unwrap_or(0)).map(|(listed, _)| listed.device.id.clone())
}

fn outlook_of(barred: &[IneligibleDevice<'_>]) -> SeatOutlook {
    let any = |meant: DeviceIneligibilityKind| barred.iter().any(|(_, _, bar)| *bar == meant);
    if any(DeviceIneligibilityKind::NoRoom) {
        SeatOutlook::Busy
    } else if any(DeviceIneligibilityKind::PassedOver) {
        SeatOutlook::Declined
    } else {
        SeatOutlook::Nobody
    }
}
