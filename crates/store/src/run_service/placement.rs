//! Placement: free seats get a device in the write that frees them; work of lower priority gives way
//! (preemption) where a run asks for it.

use std::collections::BTreeMap;

use millstream_devices::claim::{
    DeviceChoice, DeviceIneligibility, DeviceRoster, OccupiedSeat, RunChange, RunInput, RunRecord,
    RunStepOutcome, SeatDue, SeatOutlook, choose_device, overdue_seats, place_run, preemption_victim,
    step_run,
};
use millstream_model::id::{DeviceKey, RunKey, TenantId};
use millstream_model::time::Timestamp;

use super::command::DeviceRunCommand;
use super::round_plan::{DraftedRun, RoundPlan, add_seat_shifts, found_no_device};
use crate::StoreResult;

/// Seats of a device that are searched for one that gives way.
const SEATS: usize = 100;

/// Source of the devices for a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RosterSource {
    /// Cached in this process: every chosen device is read again before the write.
    Known,
    /// Read from the store now.
    Read,
}

/// Devices to choose from, with what the drafts of this round give them.
#[derive(Debug)]
pub(super) struct CandidateRoster {
    pub(super) roster: DeviceRoster,
    pub(super) trust: RosterSource,
}

/// A run that gives way: its state before, and its change.
type PreemptedRun = (RunKey, DraftedRun, RunChange);

impl RoundPlan<'_> {
    /// The change with its seats placed, and its effects on other runs.
    pub(super) async fn place_change(
        &mut self,
        order: &DeviceRunCommand,
        before: Option<&RunRecord>,
        change: RunChange,
    ) -> StoreResult<(RunChange, Vec<PreemptedRun>)> {
        if !is_to_be_placed(&change.run, self.now) {
            return Ok((change, Vec::new()));
        }
        let tenant = &order.key.tenant;
        if self.prepare_roster(tenant).await? == RosterSource::Known {
            let (placed, others) = self.try_placement(order, before, change.clone()).await?;
            if !found_no_device(&placed) && others.is_empty() {
                self.mark_unverified(tenant, &change.run, &placed.run);
                return Ok((placed, others));
            }
            // The store may have devices that the cached roster lacks.
            self.refresh_roster(tenant).await?;
        }
        self.try_placement(order, before, change).await
    }

    /// Only computes the change: seats are counted when it is drafted.
    async fn try_placement(
        &self,
        order: &DeviceRunCommand,
        before: Option<&RunRecord>,
        mut change: RunChange,
    ) -> StoreResult<(RunChange, Vec<PreemptedRun>)> {
        let mut others = BTreeMap::new();
        let Some(chosen) = self.rosters.get(&order.key.tenant) else { return Ok((change, Vec::new())) };
        let mut roster = chosen.roster.clone();
        let mut freed = BTreeMap::new();
        add_seat_shifts(&mut freed, &order.key.tenant, before, &change.run);
        freed.iter().for_each(|(device, seats)| roster.shift_open_seats(&device.device, *seats));
        if change.run.preempt {
            change = self.preempt_for(&order.key, change, &roster, &mut others).await?;
        }
        let (weights, by) = (self.around.weights(), order.by.as_deref());
        let change = place_run(change, &mut roster, &weights, self.around.next_rotation(), by, self.now);
        let others = others.into_iter().map(|(key, (page, other))| {
            (key, page, place_run(other, &mut roster, &weights, self.around.next_rotation(), None, self.now))
        });
        Ok((change, others.collect()))
    }

    async fn prepare_roster(&mut self, tenant: &TenantId) -> StoreResult<RosterSource> {
        if let Some(chosen) = self.rosters.get(tenant) {
            return Ok(chosen.trust);
        }
        let known = match self.trust {
            RosterSource::Known => self.around.rosters().fresh_roster(tenant, self.now),
            RosterSource::Read => None,
        };
        let Some(roster) = known else {
            self.refresh_roster(tenant).await?;
            return Ok(RosterSource::Read);
        };
        self.insert_roster(tenant, roster, RosterSource::Known);
        Ok(RosterSource::Known)
    }

    async fn refresh_roster(&mut self, tenant: &TenantId) -> StoreResult<()> {
        let roster = self.around.rosters().read_roster(self.around.stores(), tenant, self.now).await?;
        self.insert_roster(tenant, roster, RosterSource::Read);
        Ok(())
    }

    fn insert_roster(&mut self, tenant: &TenantId, mut roster: DeviceRoster, trust: RosterSource) {
        for (device, seats) in self.shifts.iter().filter(|(device, _)| device.tenant == *tenant) {
            roster.shift_open_seats(&device.device, *seats);
        }
        self.rosters.insert(tenant.clone(), CandidateRoster { roster, trust });
    }

    fn mark_unverified(&mut self, tenant: &TenantId, before: &RunRecord, after: &RunRecord) {
        let mut given = BTreeMap::new();
        add_seat_shifts(&mut given, tenant, Some(before), after);
        self.unproven.extend(given.into_iter().filter(|(_, seats)| *seats > 0).map(|(device, _)| device));
    }

    /// Verifies choices from the cached roster: every chosen device still exists and has capacity for its
    /// seats. Corrects the cached roster where it differs.
    pub(super) async fn verify_choices(&self) -> StoreResult<bool> {
        let keys: Vec<DeviceKey> = self.unproven.iter().cloned().collect();
        if keys.is_empty() {
            return Ok(true);
        }
        let found = self.around.stores().devices.find_devices(&keys).await?;
        let mut stands = true;
        for (key, candidate) in keys.iter().zip(found) {
            let more = self.shifts.get(key).copied().unwrap_or_default();
            stands &= candidate.as_ref().is_some_and(|candidate| {
                let has = i64::from(candidate.open).saturating_add(more);
                let has_room = candidate.device.capacity.is_none_or(|capacity| has <= i64::from(capacity));
                has_room && !candidate.device.paused
            });
            self.around.rosters().replace_device(key, candidate);
        }
        Ok(stands)
    }

    /// Preemption for each seat that every capable device is too busy for.
    async fn preempt_for(
        &self,
        key: &RunKey,
        mut change: RunChange,
        roster: &DeviceRoster,
        others: &mut BTreeMap<RunKey, (DraftedRun, RunChange)>,
    ) -> StoreResult<RunChange> {
        let stores = self.around.stores();
        let to_place =
            overdue_seats(&change.run, self.now).into_iter().filter(|(_, what)| *what == SeatDue::Place);
        for (seat, _) in to_place {
            let choice = choose_device(&change.run, seat, roster, &self.around.weights(), 0, self.now);
            let DeviceChoice::Nobody { outlook: SeatOutlook::Busy, decision } = choice else { continue };
            let full = decision
                .cards
                .iter()
                .filter(|card| matches!(card.unfit, Some(DeviceIneligibility::NoRoom { .. })));
            let full: Vec<DeviceKey> = full
                .map(|card| DeviceKey { tenant: key.tenant.clone(), device: card.device.clone() })
                .collect();
            let seats = stores.run_views.seats_of(&full, SEATS).await?.into_iter().flatten();
            // A run gives way once per round: further seats of it are for the next round.
            let is_free = |seat: &OccupiedSeat| seat.run != *key && !others.contains_key(&seat.run);
            let free: Vec<OccupiedSeat> = seats.filter(|seat| is_free(seat) && self.is_held(seat)).collect();
            let Some(seat_of_other) = preemption_victim(&change.run, &free) else { continue };
            let Some(page) = self.load_drafted_run(&seat_of_other.run).await? else { continue };
            let taken = RunInput::Preempt {
                seat: seat_of_other.seat,
                by: key.run.clone(),
                priority: change.run.priority,
            };
            let Ok(RunStepOutcome::Changed(gives_way)) = step_run(page.run.clone(), &taken, None, self.now)
            else {
                continue;
            };
            let given =
                RunInput::Assign { seat, device: seat_of_other.device.clone(), decision: Some(decision) };
            if let Ok(next @ RunStepOutcome::Changed(_)) =
                step_run(change.run.clone(), &given, None, self.now)
            {
                others.insert(seat_of_other.run.clone(), (page, *gives_way));
                change = change.merge_next(next);
            }
        }
        Ok(change)
    }

    /// Whether the drafts leave a seat with the device that the store says.
    fn is_held(&self, seat: &OccupiedSeat) -> bool {
        self.pages.get(&seat.run).is_none_or(|page| {
            let held = page.run.seat(seat.seat).and_then(|seat| seat.current_holding());
            held.is_some_and(|held| held.token == seat.token)
        })
    }

    /// A run as the drafts leave it, or as it is stored.
    async fn load_drafted_run(&self, key: &RunKey) -> StoreResult<Option<DraftedRun>> {
        if let Some(page) = self.pages.get(key) {
            return Ok(Some(page.clone()));
        }
        let found = self.around.stores().runs.load_runs(std::slice::from_ref(key)).await?;
        Ok(found.into_iter().flatten().next().map(DraftedRun::from))
    }
}

fn is_to_be_placed(run: &RunRecord, now: Timestamp) -> bool {
    overdue_seats(run, now).iter().any(|(_, what)| *what == SeatDue::Place)
}
