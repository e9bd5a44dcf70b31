//! Plans the writes of a round. Commands are processed in order, each on the result of those before it; no
//! draft counts before its commit, and a command that depends on an uncommitted draft is planned again.

use std::collections::{BTreeMap, BTreeSet};

use millstream_devices::claim::{
    self, DeviceCandidate, RunChange, RunInput, RunInputKind, RunRecord, RunRefusal, RunStepOutcome, SeatDue,
    check_self_claim, overdue_seats, step_run,
};
use millstream_model::id::{DeviceId, DeviceKey, RunKey, TenantId};
use millstream_model::time::Timestamp;

use super::command::{DeviceRunCommand, DeviceRunCommandKind, RunOperation, RunOperationReply};
use super::environment::RunEnvironment;
use super::placement::{CandidateRoster, RosterSource};
use crate::StoreResult;
use crate::run_store::{ExpectedVersion, StoredRun};

/// Writes that are committed together.
#[derive(Debug)]
pub(super) struct RunDraft {
    /// The run of the command first, then those that give way to it.
    pub(super) writes: Vec<DraftWrite>,
    pub(super) settle: OutcomeReporter,
    /// Change in the number of seats per device.
    pub(super) shifts: BTreeMap<DeviceKey, i64>,
}

#[derive(Debug)]
pub(super) struct DraftWrite {
    pub(super) key: RunKey,
    pub(super) expected: ExpectedVersion,
    pub(super) change: RunChange,
}

/// Who reports the outcome to the action that waits for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutcomeReporter {
    /// The action is settled with the write.
    Here,
    /// The caller, which has leased the action.
    Caller,
}

/// The plan for a command.
#[derive(Debug)]
pub(super) enum PlannedCommand {
    /// To be written.
    Draft(usize),
    /// There is nothing to write; the answer is valid if this draft is committed.
    Said { acted: RunOperationReply, after: Option<usize> },
}

/// A run as the drafts so far leave it.
#[derive(Debug, Clone)]
pub(super) struct DraftedRun {
    pub(super) version: i64,
    pub(super) run: RunRecord,
    /// The last draft that writes it.
    pub(super) draft: Option<usize>,
}

impl From<StoredRun> for DraftedRun {
    fn from(stored: StoredRun) -> Self {
        Self { version: stored.version, run: stored.run, draft: None }
    }
}

pub(super) struct RoundPlan<'a> {
    pub(super) around: &'a dyn RunEnvironment,
    pub(super) now: Timestamp,
    pub(super) pages: BTreeMap<RunKey, DraftedRun>,
    /// Devices that take seats by themselves.
    pub(super) takers: &'a BTreeMap<DeviceKey, DeviceCandidate>,
    pub(super) rosters: BTreeMap<TenantId, CandidateRoster>,
    pub(super) trust: RosterSource,
    pub(super) drafts: Vec<RunDraft>,
    /// Change in the number of seats per device, by all drafts.
    pub(super) shifts: BTreeMap<DeviceKey, i64>,
    /// Chosen from the cached roster and not verified yet.
    pub(super) unproven: BTreeSet<DeviceKey>,
}

impl RoundPlan<'_> {
    pub(super) async fn plan_command(&mut self, order: &DeviceRunCommand) -> StoreResult<PlannedCommand> {
        let by = order.by.as_deref();
        match &order.want {
            DeviceRunCommandKind::Create(spec) => {
                let change = claim::create_run((**spec).clone(), by, self.now);
                self.add_draft(order, (ExpectedVersion::Nothing, None), change, OutcomeReporter::Here).await
            }
            DeviceRunCommandKind::Ask(ask) => self.plan_operation(order, ask).await,
        }
    }

    async fn plan_operation(
        &mut self,
        order: &DeviceRunCommand,
        ask: &RunOperation,
    ) -> StoreResult<PlannedCommand> {
        let Some(page) = self.pages.get(&order.key).cloned() else {
            return Ok(PlannedCommand::Said { acted: RunOperationReply::NoSuchRun, after: None });
        };
        let DraftedRun { version, run, draft } = page;
        let said = |acted| Ok(PlannedCommand::Said { acted, after: draft });
        let by = order.by.as_deref();
        let stepped = match ask {
            RunOperation::Input(input) => step_run(run.clone(), input, by, self.now),
            RunOperation::Take { device, seat } => {
                match self.self_claim_input(&order.key, &run, device, *seat) {
                    Some(input) => step_run(run.clone(), &input, by, self.now),
                    None => return said(RunOperationReply::NoSuchDevice),
                }
            }
            RunOperation::Due => Ok(apply_deadlines(&run, by, self.now)),
            RunOperation::Adopt(waiting) => {
                step_run(run.clone(), &RunInput::Adopt { waiting: waiting.clone() }, by, self.now)
            }
        };
        let change = match stepped {
            Ok(RunStepOutcome::Changed(change)) => *change,
            Ok(RunStepOutcome::Already) => {
                return said(RunOperationReply::Done { run: Box::new(run), told: None });
            }
            Err(refusal) => return said(RunOperationReply::Refused(refusal)),
        };
        let settle = match ask {
            RunOperation::Input(_) | RunOperation::Take { .. } | RunOperation::Due => OutcomeReporter::Here,
            RunOperation::Adopt(_) => OutcomeReporter::Caller,
        };
        self.add_draft(order, (ExpectedVersion::Version(version), Some(run)), change, settle).await
    }

    /// `None` where there is no such device.
    fn self_claim_input(
        &self,
        key: &RunKey,
        run: &RunRecord,
        device: &DeviceId,
        seat: Option<u16>,
    ) -> Option<RunInput> {
        let who = DeviceKey { tenant: key.tenant.clone(), device: device.clone() };
        let mut candidate = self.takers.get(&who)?.clone();
        let more = self.shifts.get(&who).copied().unwrap_or_default();
        candidate.open = u32::try_from((i64::from(candidate.open) + more).max(0)).unwrap_or(u32::MAX);
        let open =
            || run.numbered_seats().find(|(_, seat)| seat.status().is_open()).map(|(number, _)| number);
        let fitness = check_self_claim(run, seat.or_else(open).unwrap_or(0), &candidate, self.now);
        Some(RunInput::SelfClaim { device: device.clone(), seat, fitness, decision: None })
    }

    async fn add_draft(
        &mut self,
        asked: &DeviceRunCommand,
        before: (ExpectedVersion, Option<RunRecord>),
        change: RunChange,
        settle: OutcomeReporter,
    ) -> StoreResult<PlannedCommand> {
        let (expected, before) = before;
        let (change, others) = self.place_change(asked, before.as_ref(), change).await?;
        let mut shifts = BTreeMap::new();
        add_seat_shifts(&mut shifts, &asked.key.tenant, before.as_ref(), &change.run);
        let mut writes = vec![DraftWrite { key: asked.key.clone(), expected, change }];
        for (key, page, change) in others {
            add_seat_shifts(&mut shifts, &key.tenant, Some(&page.run), &change.run);
            writes.push(DraftWrite { key, expected: ExpectedVersion::Version(page.version), change });
        }
        let draft = self.drafts.len();
        for DraftWrite { key, expected, change } in &writes {
            if let ExpectedVersion::Version(version) = expected {
                let page = DraftedRun { version: version + 1, run: change.run.clone(), draft: Some(draft) };
                self.pages.insert(key.clone(), page);
            }
        }
        for (device, seats) in &shifts {
            *self.shifts.entry(device.clone()).or_default() += seats;
            if let Some(chosen) = self.rosters.get_mut(&device.tenant) {
                chosen.roster.shift_open_seats(&device.device, *seats);
            }
        }
        self.drafts.push(RunDraft { writes, settle, shifts });
        Ok(PlannedCommand::Draft(draft))
    }
}

/// How a change alters the number of seats per device.
pub(super) fn add_seat_shifts(
    shifts: &mut BTreeMap<DeviceKey, i64>,
    tenant: &TenantId,
    before: Option<&RunRecord>,
    after: &RunRecord,
) {
    let held = |run: &RunRecord| -> Vec<DeviceId> {
        run.seats.iter().filter_map(|seat| seat.current_holding().map(|held| held.device.clone())).collect()
    };
    let mut count = |device: DeviceId, by: i64| {
        *shifts.entry(DeviceKey { tenant: tenant.clone(), device }).or_default() += by;
    };
    before.map(held).into_iter().flatten().for_each(|device| count(device, -1));
    held(after).into_iter().for_each(|device| count(device, 1));
    shifts.retain(|_, seats| *seats != 0);
}

/// Deadline monitor: every passed deadline in turn, written together. Seats are placed afterwards.
fn apply_deadlines(run: &RunRecord, by: Option<&str>, now: Timestamp) -> RunStepOutcome {
    let untouched = || RunChange { run: run.clone(), log: Vec::new(), told: None, unheard: Vec::new() };
    let mut change: Option<RunChange> = None;
    for (seat, what) in overdue_seats(run, now) {
        let input = match what {
            SeatDue::Place => {
                // Only placement is left to do.
                change.get_or_insert_with(untouched);
                continue;
            }
            SeatDue::AssignmentTimeout => RunInput::AssignmentTimeout { seat },
            SeatDue::ClaimExpiry => RunInput::ClaimExpiry { seat },
            SeatDue::HeartbeatTimeout => RunInput::HeartbeatTimeout { seat },
            SeatDue::BackoffOver => RunInput::BackoffOver { seat },
        };
        let before = change.take().unwrap_or_else(untouched);
        change = Some(match step_run(before.run.clone(), &input, by, now) {
            Ok(next) => before.merge_next(next),
            // An earlier step has ended the run.
            Err(RunRefusal { .. }) => before,
        });
    }
    change.map_or(RunStepOutcome::Already, |change| RunStepOutcome::Changed(Box::new(change)))
}

/// Whether placement found no device.
pub(super) fn found_no_device(change: &RunChange) -> bool {
    change.log.iter().any(|entry| entry.word == RunInputKind::NobodyViable)
}
