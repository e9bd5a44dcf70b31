//! Placement: free seats get a device in the write that frees them; work of lower priority gives way
//! (preemption) where a run asks for it.

use std::collections::BTreeMap;

use millstream_core::claim::{
    Change, Choice, Due, Input, Occupied, Outlook, Roster, Run, Stepped, Unfit, choose, overdue, place, step,
    victim,
};
use millstream_core::id::{DeviceKey, RunKey, TenantId};
use millstream_core::time::Timestamp;

use super::order::Order;
use super::planning::{Page, Plan, found_nobody, shift};
use crate::Result;

/// Seats of a device that are searched for one that gives way.
const SEATS: usize = 100;

/// Source of the devices for a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Cached in this process: every chosen device is read again before the write.
    Known,
    /// Read from the store now.
    Read,
}

/// Devices to choose from, with what the drafts of this round give them.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) roster: Roster,
    pub(super) trust: Trust,
}

/// A run that gives way: its state before, and its change.
type GivesWay = (RunKey, Page, Change);

impl Plan<'_> {
    /// The change with its seats placed, and its effects on other runs.
    pub(super) async fn placed(
        &mut self,
        order: &Order,
        before: Option<&Run>,
        change: Change,
    ) -> Result<(Change, Vec<GivesWay>)> {
        if !is_to_be_placed(&change.run, self.now) {
            return Ok((change, Vec::new()));
        }
        let tenant = &order.key.tenant;
        if self.ready(tenant).await? == Trust::Known {
            let (placed, others) = self.attempt(order, before, change.clone()).await?;
            if !found_nobody(&placed) && others.is_empty() {
                self.prove(tenant, &change.run, &placed.run);
                return Ok((placed, others));
            }
            // The store may have devices that the cached roster lacks.
            self.read(tenant).await?;
        }
        self.attempt(order, before, change).await
    }

    /// Only computes the change: seats are counted when it is drafted.
    async fn attempt(
        &self,
        order: &Order,
        before: Option<&Run>,
        mut change: Change,
    ) -> Result<(Change, Vec<GivesWay>)> {
        let mut others = BTreeMap::new();
        let Some(chosen) = self.rosters.get(&order.key.tenant) else { return Ok((change, Vec::new())) };
        let mut roster = chosen.roster.clone();
        let mut freed = BTreeMap::new();
        shift(&mut freed, &order.key.tenant, before, &change.run);
        freed.iter().for_each(|(device, seats)| roster.shift(&device.device, *seats));
        if change.run.preempt {
            change = self.make_way(&order.key, change, &roster, &mut others).await?;
        }
        let (weights, by) = (self.around.weights(), order.by.as_deref());
        let change = place(change, &mut roster, &weights, self.around.rotation(), by, self.now);
        let others = others.into_iter().map(|(key, (page, other))| {
            (key, page, place(other, &mut roster, &weights, self.around.rotation(), None, self.now))
        });
        Ok((change, others.collect()))
    }

    async fn ready(&mut self, tenant: &TenantId) -> Result<Trust> {
        if let Some(chosen) = self.rosters.get(tenant) {
            return Ok(chosen.trust);
        }
        let known = match self.trust {
            Trust::Known => self.around.rosters().known(tenant, self.now),
            Trust::Read => None,
        };
        let Some(roster) = known else {
            self.read(tenant).await?;
            return Ok(Trust::Read);
        };
        self.keep(tenant, roster, Trust::Known);
        Ok(Trust::Known)
    }

    async fn read(&mut self, tenant: &TenantId) -> Result<()> {
        let roster = self.around.rosters().read(self.around.stores(), tenant, self.now).await?;
        self.keep(tenant, roster, Trust::Read);
        Ok(())
    }

    fn keep(&mut self, tenant: &TenantId, mut roster: Roster, trust: Trust) {
        for (device, seats) in self.shifts.iter().filter(|(device, _)| device.tenant == *tenant) {
            roster.shift(&device.device, *seats);
        }
        self.rosters.insert(tenant.clone(), Chosen { roster, trust });
    }

    fn prove(&mut self, tenant: &TenantId, before: &Run, after: &Run) {
        let mut given = BTreeMap::new();
        shift(&mut given, tenant, Some(before), after);
        self.unproven.extend(given.into_iter().filter(|(_, seats)| *seats > 0).map(|(device, _)| device));
    }

    /// Verifies choices from the cached roster: every chosen device still exists and has capacity for its
    /// seats. Corrects the cached roster where it differs.
    pub(super) async fn stands(&self) -> Result<bool> {
        let keys: Vec<DeviceKey> = self.unproven.iter().cloned().collect();
        if keys.is_empty() {
            return Ok(true);
        }
        let found = self.around.stores().devices.devices(&keys).await?;
        let mut stands = true;
        for (key, candidate) in keys.iter().zip(found) {
            let more = self.shifts.get(key).copied().unwrap_or_default();
            stands &= candidate.as_ref().is_some_and(|candidate| {
                let has = i64::from(candidate.open).saturating_add(more);
                let has_room = candidate.device.capacity.is_none_or(|capacity| has <= i64::from(capacity));
                has_room && !candidate.device.paused
            });
            self.around.rosters().correct(key, candidate);
        }
        Ok(stands)
    }

    /// Preemption for each seat that every capable device is too busy for.
    async fn make_way(
        &self,
        key: &RunKey,
        mut change: Change,
        roster: &Roster,
        others: &mut BTreeMap<RunKey, (Page, Change)>,
    ) -> Result<Change> {
        let stores = self.around.stores();
        let to_place = overdue(&change.run, self.now).into_iter().filter(|(_, what)| *what == Due::Place);
        for (seat, _) in to_place {
            let choice = choose(&change.run, seat, roster, &self.around.weights(), 0, self.now);
            let Choice::Nobody { outlook: Outlook::Busy, decision } = choice else { continue };
            let full = decision.cards.iter().filter(|card| matches!(card.unfit, Some(Unfit::NoRoom { .. })));
            let full: Vec<DeviceKey> = full
                .map(|card| DeviceKey { tenant: key.tenant.clone(), device: card.device.clone() })
                .collect();
            let seats = stores.run_views.seats_of(&full, SEATS).await?.into_iter().flatten();
            // A run gives way once per round: further seats of it are for the next round.
            let is_free = |seat: &Occupied| seat.run != *key && !others.contains_key(&seat.run);
            let free: Vec<Occupied> = seats.filter(|seat| is_free(seat) && self.is_held(seat)).collect();
            let Some(seat_of_other) = victim(&change.run, &free) else { continue };
            let Some(page) = self.page(&seat_of_other.run).await? else { continue };
            let taken = Input::Preempt {
                seat: seat_of_other.seat,
                by: key.run.clone(),
                priority: change.run.priority,
            };
            let Ok(Stepped::Changed(gives_way)) = step(page.run.clone(), &taken, None, self.now) else {
                continue;
            };
            let given =
                Input::Assign { seat, device: seat_of_other.device.clone(), decision: Some(decision) };
            if let Ok(next @ Stepped::Changed(_)) = step(change.run.clone(), &given, None, self.now) {
                others.insert(seat_of_other.run.clone(), (page, *gives_way));
                change = change.then(next);
            }
        }
        Ok(change)
    }

    /// Whether the drafts leave a seat with the device that the store says.
    fn is_held(&self, seat: &Occupied) -> bool {
        self.pages.get(&seat.run).is_none_or(|page| {
            let held = page.run.seat(seat.seat).and_then(|seat| seat.held());
            held.is_some_and(|held| held.token == seat.token)
        })
    }

    /// A run as the drafts leave it, or as it is stored.
    async fn page(&self, key: &RunKey) -> Result<Option<Page>> {
        if let Some(page) = self.pages.get(key) {
            return Ok(Some(page.clone()));
        }
        let found = self.around.stores().runs.load_runs(std::slice::from_ref(key)).await?;
        Ok(found.into_iter().flatten().next().map(Page::from))
    }
}

fn is_to_be_placed(run: &Run, now: Timestamp) -> bool {
    overdue(run, now).iter().any(|(_, what)| *what == Due::Place)
}
