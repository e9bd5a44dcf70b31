//! All devices that a choice is made from: in the order of their ids, ranked once, each with what it has been given.
//!
//! Copies are cheap: whoever tries something out does so on a copy.

use std::sync::Arc;

use super::device::{Candidate, Device};
use crate::election::{self, Member};
use crate::id::DeviceId;

#[derive(Debug, Clone, Default)]
pub struct Roster(Vec<Listed>);

/// A device, and what is counted of it.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) device: Arc<Device>,
    pub(super) open: u32,
    /// Its place in the election over all that are registered, 0 to 1.
    pub(super) rank: f64,
}

impl FromIterator<Candidate> for Roster {
    fn from_iter<I: IntoIterator<Item = Candidate>>(candidates: I) -> Self {
        let listed = |Candidate { device, open }| Listed { device: Arc::new(device), open, rank: 0.0 };
        let mut roster = Self(candidates.into_iter().map(listed).collect());
        roster.0.sort_by(|one, other| one.device.id.cmp(&other.device.id));
        roster.elect();
        roster
    }
}

impl Roster {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, device: &DeviceId) -> Option<&Device> {
        let at = self.find(device).ok()?;
        self.0.get(at).map(|listed| &*listed.device)
    }

    /// What is known of a device now.
    pub fn put(&mut self, candidate: Candidate) {
        let Candidate { device, open } = candidate;
        match self.find(&device.id) {
            Ok(at) => {
                let Some(listed) = self.0.get_mut(at) else { return };
                let is_ranked_alike = listed.device.capability == device.capability;
                (listed.device, listed.open) = (Arc::new(device), open);
                if is_ranked_alike {
                    return;
                }
            }
            Err(at) => self.0.insert(at, Listed { device: Arc::new(device), open, rank: 0.0 }),
        }
        self.elect();
    }

    /// What a device says of itself, whatever it has been given. Whether it is paused is not its own word.
    pub fn hear(&mut self, mut device: Device) {
        let known = self.find(&device.id).ok().and_then(|at| self.0.get(at));
        let open = known.map_or(0, |listed| listed.open);
        device.paused = known.is_some_and(|listed| listed.device.paused);
        self.put(Candidate { device, open });
    }

    pub fn remove(&mut self, device: &DeviceId) {
        if let Ok(at) = self.find(device) {
            self.0.remove(at);
            self.elect();
        }
    }

    /// A device has so many seats more, or fewer.
    pub fn shift(&mut self, device: &DeviceId, seats: i64) {
        if let Ok(at) = self.find(device)
            && let Some(listed) = self.0.get_mut(at)
        {
            let open = i64::from(listed.open).saturating_add(seats).max(0);
            listed.open = u32::try_from(open).unwrap_or(u32::MAX);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Listed> {
        self.0.iter()
    }

    fn find(&self, device: &DeviceId) -> Result<usize, usize> {
        self.0.binary_search_by(|listed| listed.device.id.cmp(device))
    }

    fn elect(&mut self) {
        let order = election::order((0..self.0.len()).map_while(|at| self.0.get(at)).map(Listed::member));
        let of = order.len();
        let mut ranks: Vec<(DeviceId, f64)> = order
            .into_iter()
            .enumerate()
            .map(|(place, id)| (id.clone(), election::rank(place, of)))
            .collect();
        ranks.sort_by(|one, other| one.0.cmp(&other.0));
        for (listed, (_, rank)) in self.0.iter_mut().zip(ranks) {
            listed.rank = rank;
        }
    }
}

impl Listed {
    pub(super) fn member(&self) -> Member<'_, DeviceId> {
        Member { id: &self.device.id, capability: u64::from(self.device.capability) }
    }
}
