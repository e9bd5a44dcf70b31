//! Plans the writes of a round. Commands are processed in order, each on the result of those before it; no
//! draft counts before its commit, and a command that depends on an uncommitted draft is planned again.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::claim::{
    self, Candidate, Change, Due, Input, Refusal, Run, Stepped, Word, fit_to_take, overdue, step,
};
use millstream_core::id::{DeviceId, DeviceKey, RunKey, TenantId};
use millstream_core::time::Timestamp;

use super::around::Around;
use super::order::{Acted, Ask, Order, Want};
use super::placing::{Chosen, Trust};
use crate::Result;
use crate::run_store::{Expected, StoredRun};

/// Writes that are committed together.
#[derive(Debug)]
pub(super) struct Draft {
    /// The run of the command first, then those that give way to it.
    pub(super) writes: Vec<Write>,
    pub(super) settle: Settle,
    /// Change in the number of seats per device.
    pub(super) shifts: BTreeMap<DeviceKey, i64>,
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) key: RunKey,
    pub(super) expected: Expected,
    pub(super) change: Change,
}

/// Who reports the outcome to the action that waits for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    /// The action is settled with the write.
    Here,
    /// The caller, which has leased the action.
    Caller,
}

/// The plan for a command.
#[derive(Debug)]
pub(super) enum Planned {
    /// To be written.
    Draft(usize),
    /// There is nothing to write; the answer is valid if this draft is committed.
    Said { acted: Acted, after: Option<usize> },
}

/// A run as the drafts so far leave it.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) version: i64,
    pub(super) run: Run,
    /// The last draft that writes it.
    pub(super) draft: Option<usize>,
}

impl From<StoredRun> for Page {
    fn from(stored: StoredRun) -> Self {
        Self { version: stored.version, run: stored.run, draft: None }
    }
}

pub(super) struct Plan<'a> {
    pub(super) around: &'a dyn Around,
    pub(super) now: Timestamp,
    pub(super) pages: BTreeMap<RunKey, Page>,
    /// Devices that take seats by themselves.
    pub(super) takers: &'a BTreeMap<DeviceKey, Candidate>,
    pub(super) rosters: BTreeMap<TenantId, Chosen>,
    pub(super) trust: Trust,
    pub(super) drafts: Vec<Draft>,
    /// Change in the number of seats per device, by all drafts.
    pub(super) shifts: BTreeMap<DeviceKey, i64>,
    /// Chosen from the cached roster and not verified yet.
    pub(super) unproven: BTreeSet<DeviceKey>,
}

impl Plan<'_> {
    pub(super) async fn order(&mut self, order: &Order) -> Result<Planned> {
        let by = order.by.as_deref();
        match &order.want {
            Want::Create(spec) => {
                let change = claim::create((**spec).clone(), by, self.now);
                self.draft(order, (Expected::Nothing, None), change, Settle::Here).await
            }
            Want::Ask(ask) => self.ask(order, ask).await,
        }
    }

    async fn ask(&mut self, order: &Order, ask: &Ask) -> Result<Planned> {
        let Some(page) = self.pages.get(&order.key).cloned() else {
            return Ok(Planned::Said { acted: Acted::NoSuchRun, after: None });
        };
        let Page { version, run, draft } = page;
        let said = |acted| Ok(Planned::Said { acted, after: draft });
        let by = order.by.as_deref();
        let stepped = match ask {
            Ask::Input(input) => step(run.clone(), input, by, self.now),
            Ask::Take { device, seat } => match self.taking(&order.key, &run, device, *seat) {
                Some(input) => step(run.clone(), &input, by, self.now),
                None => return said(Acted::NoSuchDevice),
            },
            Ask::Due => Ok(all_due(&run, by, self.now)),
            Ask::Adopt(waiting) => {
                step(run.clone(), &Input::Adopt { waiting: waiting.clone() }, by, self.now)
            }
        };
        let change = match stepped {
            Ok(Stepped::Changed(change)) => *change,
            Ok(Stepped::Already) => return said(Acted::Done { run: Box::new(run), told: None }),
            Err(refusal) => return said(Acted::Refused(refusal)),
        };
        let settle = match ask {
            Ask::Input(_) | Ask::Take { .. } | Ask::Due => Settle::Here,
            Ask::Adopt(_) => Settle::Caller,
        };
        self.draft(order, (Expected::Version(version), Some(run)), change, settle).await
    }

    /// `None` where there is no such device.
    fn taking(&self, key: &RunKey, run: &Run, device: &DeviceId, seat: Option<u16>) -> Option<Input> {
        let who = DeviceKey { tenant: key.tenant.clone(), device: device.clone() };
        let mut candidate = self.takers.get(&who)?.clone();
        let more = self.shifts.get(&who).copied().unwrap_or_default();
        candidate.open = u32::try_from((i64::from(candidate.open) + more).max(0)).unwrap_or(u32::MAX);
        let open = || run.numbered().find(|(_, seat)| seat.status().is_open()).map(|(number, _)| number);
        let fitness = fit_to_take(run, seat.or_else(open).unwrap_or(0), &candidate, self.now);
        Some(Input::SelfClaim { device: device.clone(), seat, fitness, decision: None })
    }

    async fn draft(
        &mut self,
        asked: &Order,
        before: (Expected, Option<Run>),
        change: Change,
        settle: Settle,
    ) -> Result<Planned> {
        let (expected, before) = before;
        let (change, others) = self.placed(asked, before.as_ref(), change).await?;
        let mut shifts = BTreeMap::new();
        shift(&mut shifts, &asked.key.tenant, before.as_ref(), &change.run);
        let mut writes = vec![Write { key: asked.key.clone(), expected, change }];
        for (key, page, change) in others {
            shift(&mut shifts, &key.tenant, Some(&page.run), &change.run);
            writes.push(Write { key, expected: Expected::Version(page.version), change });
        }
        let draft = self.drafts.len();
        for Write { key, expected, change } in &writes {
            if let Expected::Version(version) = expected {
                let page = Page { version: version + 1, run: change.run.clone(), draft: Some(draft) };
                self.pages.insert(key.clone(), page);
            }
        }
        for (device, seats) in &shifts {
            *self.shifts.entry(device.clone()).or_default() += seats;
            if let Some(chosen) = self.rosters.get_mut(&device.tenant) {
                chosen.roster.shift(&device.device, *seats);
            }
        }
        self.drafts.push(Draft { writes, settle, shifts });
        Ok(Planned::Draft(draft))
    }
}

/// How a change alters the number of seats per device.
pub(super) fn shift(
    shifts: &mut BTreeMap<DeviceKey, i64>,
    tenant: &TenantId,
    before: Option<&Run>,
    after: &Run,
) {
    let held = |run: &Run| -> Vec<DeviceId> {
        run.seats.iter().filter_map(|seat| seat.held().map(|held| held.device.clone())).collect()
    };
    let mut count = |device: DeviceId, by: i64| {
        *shifts.entry(DeviceKey { tenant: tenant.clone(), device }).or_default() += by;
    };
    before.map(held).into_iter().flatten().for_each(|device| count(device, -1));
    held(after).into_iter().for_each(|device| count(device, 1));
    shifts.retain(|_, seats| *seats != 0);
}

/// Deadline monitor: every passed deadline in turn, written together. Seats are placed afterwards.
fn all_due(run: &Run, by: Option<&str>, now: Timestamp) -> Stepped {
    let untouched = || Change { run: run.clone(), log: Vec::new(), told: None, unheard: Vec::new() };
    let mut change: Option<Change> = None;
    for (seat, what) in overdue(run, now) {
        let input = match what {
            Due::Place => {
                // Only placement is left to do.
                change.get_or_insert_with(untouched);
                continue;
            }
            Due::AssignmentTimeout => Input::AssignmentTimeout { seat },
            Due::ClaimExpiry => Input::ClaimExpiry { seat },
            Due::HeartbeatTimeout => Input::HeartbeatTimeout { seat },
            Due::BackoffOver => Input::BackoffOver { seat },
        };
        let before = change.take().unwrap_or_else(untouched);
        change = Some(match step(before.run.clone(), &input, by, now) {
            Ok(next) => before.then(next),
            // An earlier step has ended the run.
            Err(Refusal { .. }) => before,
        });
    }
    change.map_or(Stepped::Already, |change| Stepped::Changed(Box::new(change)))
}

/// Whether placement found no device.
pub(super) fn found_nobody(change: &Change) -> bool {
    change.log.iter().any(|entry| entry.word == Word::NobodyViable)
}
