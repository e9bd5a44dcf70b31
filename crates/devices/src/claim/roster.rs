//! The roster: all devices in order of id, ranked once, each with the number of its open seats.
//!
//! Copies are cheap (copy on write): a tentative placement works on a copy, which holds only the differences.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::id::DeviceId;

use super::device::{DeviceCandidate, DeviceReport};
use crate::election::{self, ElectionMember};

#[derive(Debug, Clone, Default)]
pub struct DeviceRoster {
    listed: Arc<Vec<RankedDevice>>,
    /// By index: the difference of open seats in this copy.
    shifted: BTreeMap<usize, i64>,
}

/// A device with its rank.
#[derive(Debug, Clone)]
pub(super) struct RankedDevice {
    pub(super) device: Arc<DeviceReport>,
    open: u32,
    /// Its rank in the election among all registered devices, 0 to 1.
    pub(super) rank: f64,
}

impl FromIterator<DeviceCandidate> for DeviceRoster {
    fn from_iter<I: IntoIterator<Item = DeviceCandidate>>(candidates: I) -> Self {
        let listed =
            |DeviceCandidate { device, open }| RankedDevice { device: Arc::new(device), open, rank: 0.0 };
        let mut all: Vec<RankedDevice> = candidates.into_iter().map(listed).collect();
        all.sort_by(|one, other| one.device.id.cmp(&other.device.id));
        rank_devices(&mut all);
        Self { listed: Arc::new(all), shifted: BTreeMap::new() }
    }
}

impl DeviceRoster {
    pub fn len(&self) -> usize {
        self.listed.len()
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    pub fn get(&self, device: &DeviceId) -> Option<&DeviceReport> {
        let at = self.find(device).ok()?;
        self.listed.get(at).map(|listed| &*listed.device)
    }

    /// Adds or replaces a device.
    pub fn put(&mut self, candidate: DeviceCandidate) {
        let DeviceCandidate { device, open } = candidate;
        let found = self.find(&device.id);
        let all = self.own_list();
        match found {
            Ok(at) => {
                let Some(listed) = all.get_mut(at) else { return };
                let is_ranked_alike = listed.device.capability == device.capability;
                (listed.device, listed.open) = (Arc::new(device), open);
                if is_ranked_alike {
                    return;
                }
            }
            Err(at) => all.insert(at, RankedDevice { device: Arc::new(device), open, rank: 0.0 }),
        }
        rank_devices(all);
    }

    /// Updates the self-report of a device; its open seats and its pause, which an operator sets, are kept.
    pub fn update_report(&mut self, mut device: DeviceReport) {
        let known = self.find(&device.id).ok();
        let open = known.map_or(0, |at| self.open_seats(at));
        let before = known.and_then(|at| self.listed.get(at));
        device.paused = before.is_some_and(|listed| listed.device.paused);
        self.put(DeviceCandidate { device, open });
    }

    pub fn remove(&mut self, device: &DeviceId) {
        if let Ok(at) = self.find(device) {
            let all = self.own_list();
            all.remove(at);
            rank_devices(all);
        }
    }

    /// Adds a difference to the open seats of a device.
    pub fn shift_open_seats(&mut self, device: &DeviceId, seats: i64) {
        let Ok(at) = self.find(device) else { return };
        match Arc::get_mut(&mut self.listed).and_then(|all| all.get_mut(at)) {
            // This copy is the only owner of the list.
            Some(listed) if self.shifted.is_empty() => listed.open = shifted_count(listed.open, seats),
            Some(_) | None => {
                let open = self.listed.get(at).map_or(0, |listed| i64::from(listed.open));
                let by = self.shifted.entry(at).or_default();
                *by = by.saturating_add(seats).max(-open);
            }
        }
    }

    /// Each device with its open seats.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&RankedDevice, u32)> {
        let mut moved = self.shifted.iter().peekable();
        self.listed.iter().enumerate().map(move |(at, listed)| {
            let by = moved.next_if(|(place, _)| **place == at).map_or(0, |(_, seats)| *seats);
            (listed, shifted_count(listed.open, by))
        })
    }

    fn open_seats(&self, at: usize) -> u32 {
        let by = self.shifted.get(&at).copied().unwrap_or_default();
        self.listed.get(at).map_or(0, |listed| shifted_count(listed.open, by))
    }

    fn find(&self, device: &DeviceId) -> Result<usize, usize> {
        self.listed.binary_search_by(|listed| listed.device.id.cmp(device))
    }

    /// The list of this copy, mutable.
    fn own_list(&mut self) -> &mut Vec<RankedDevice> {
        let all = Arc::make_mut(&mut self.listed);
        for (at, seats) in std::mem::take(&mut self.shifted) {
            if let Some(listed) = all.get_mut(at) {
                listed.open = shifted_count(listed.open, seats);
            }
        }
        all
    }
}

fn shifted_count(open: u32, by: i64) -> u32 {
    u32::try_from(i64::from(open).saturating_add(by).max(0)).unwrap_or(u32::MAX)
}

fn rank_devices(all: &mut [RankedDevice]) {
    let order = election::election_order(all.iter().map(RankedDevice::election_member));
    let of = order.len();
    let mut ranks: Vec<(DeviceId, f64)> = order
        .into_iter()
        .enumerate()
        .map(|(place, id)| (id.clone(), election::scaled_rank(place, of)))
        .collect();
    ranks.sort_by(|one, other| one.0.cmp(&other.0));
    for (listed, (_, rank)) in all.iter_mut().zip(ranks) {
        listed.rank = rank;
    }
}

impl RankedDevice {
    pub(super) fn election_member(&self) -> ElectionMember<'_, DeviceId> {
        ElectionMember { id: &self.device.id, capability: u64::from(self.device.capability) }
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::time::Timestamp;

    use super::*;

    fn device(id: &str) -> DeviceReport {
        DeviceReport::with_defaults(DeviceId::parse(id).unwrap(), Timestamp::EPOCH)
    }

    fn opens(roster: &DeviceRoster) -> Vec<u32> {
        roster.iter().map(|(_, open)| open).collect()
    }

    #[test]
    fn roster_copy_is_isolated() {
        let candidates = ["a", "b", "c"].map(|id| DeviceCandidate { device: device(id), open: 1 });
        let mut roster: DeviceRoster = candidates.into_iter().collect();
        let id = |text: &str| DeviceId::parse(text).unwrap();
        roster.shift_open_seats(&id("b"), 1);
        let mut copy = roster.clone();
        copy.shift_open_seats(&id("b"), 2);
        // The number of open seats is clamped at zero, without a debt.
        copy.shift_open_seats(&id("c"), -5);
        copy.shift_open_seats(&id("c"), 1);
        copy.shift_open_seats(&id("c"), -1);
        roster.shift_open_seats(&id("a"), 1);
        assert_eq!(opens(&copy), [1, 4, 0]);
        assert_eq!(opens(&roster), [2, 2, 1]);
        // A new self-report keeps the open seats.
        copy.update_report(device("b"));
        copy.put(DeviceCandidate { device: device("d"), open: 7 });
        copy.remove(&id("a"));
        assert_eq!(opens(&copy), [4, 0, 7]);
        drop(copy);
        roster.shift_open_seats(&id("a"), 1);
        assert_eq!(opens(&roster), [3, 2, 1]);
    }
}
