//! The pure step: decides the effect of an input on an item and its assignments.

use millstream_model::id::{AssignmentId, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::ending;
use super::input::{ItemInput, ItemInputKind};
use super::item::ItemAggregate;
use super::item_assignment::{ItemAssignment, SlotState};
use super::item_log::{ItemLogEntry, ItemLogKind};
use super::item_outcome::ItemOutcome;
use super::limits::{MAX_ANSWER_BYTES, MAX_REASON_BYTES};
use super::queue::QueueConfig;
use super::reassign::{self, SlotReceiver};
use super::refusal::ItemRefusal;
use super::select::{ItemOpening, OpeningChange};
use super::status::{AssignmentStatus, QueueState};
use super::table::{self, AssignmentEffect};

/// The queue that the item is in.
#[derive(Debug, Clone, Copy)]
pub struct ItemQueueContext<'a> {
    pub queue: &'a QueueConfig,
    pub state: QueueState,
    /// The escalation queue, if one is configured and exists.
    pub escalates_to: Option<&'a QueueConfig>,
}

/// The result of a legal input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemStepOutcome {
    Changed(Box<ItemChange>),
    /// A repetition: answered like the first time.
    Repeated,
}

/// Everything that one input changes, to be committed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemChange {
    /// The item and all of its assignments after the step.
    pub work: ItemAggregate,
    /// Assignments that are new or changed.
    pub changed: Vec<AssignmentId>,
    pub log: Vec<ItemLogEntry>,
    pub opening: ItemOpening,
    /// The outcome for the execution that waits for the item.
    pub told: Option<ItemOutcome>,
}

pub fn step_item(
    work: &ItemAggregate,
    setting: ItemQueueContext<'_>,
    input: &ItemInput,
    now: Timestamp,
) -> Result<ItemStepOutcome, ItemRefusal> {
    let mut draft = ItemStepDraft::from_work(work, setting, input.kind(), now);
    match input {
        ItemInput::Assign { person, next } => assign_opening(&mut draft, person, *next)?,
        ItemInput::Start { assignment, person } => {
            if draft.check_assignment(*assignment, Some(person))? == AssignmentEffect::Repeats {
                return Ok(ItemStepOutcome::Repeated);
            }
            draft.start_assignment(*assignment);
        }
        ItemInput::Submit { assignment, person, answer } => {
            if draft.check_assignment(*assignment, Some(person))? == AssignmentEffect::Repeats {
                return repeated_answer(work, *assignment, answer);
            }
            submit_answer(&mut draft, *assignment, answer);
        }
        ItemInput::Skip { assignment, person, reason } => {
            if draft.check_assignment(*assignment, Some(person))? == AssignmentEffect::Repeats {
                return Ok(ItemStepOutcome::Repeated);
            }
            skip_assignment(&mut draft, *assignment, reason.as_deref())?;
        }
        ItemInput::Heartbeat { assignment, person } => {
            draft.check_assignment(*assignment, Some(person))?;
            draft.extend_deadline(*assignment);
        }
        ItemInput::Expire { assignment, next } => {
            draft.check_assignment(*assignment, None)?;
            expire_assignment(&mut draft, *assignment, *next)?;
        }
        ItemInput::Revoke { assignment, to, next, by } => {
            draft.check_assignment(*assignment, None)?;
            draft.by.clone_from(by);
            if let Some(person) = to {
                draft.check_receiver(person)?;
            }
            revoke_assignment(&mut draft, *assignment, to.as_ref(), *next);
        }
        ItemInput::Reassign { assignment, to, next, by } => {
            draft.check_assignment(*assignment, None)?;
            draft.by.clone_from(by);
            reassign_freed_slot(&mut draft, *assignment, to.as_ref(), *next)?;
        }
        ItemInput::Correct { assignment, person, next, by } => {
            draft.check_assignment(*assignment, None)?;
            draft.by.clone_from(by);
            assign_correction(&mut draft, *assignment, person.as_ref(), *next)?;
        }
        ItemInput::Withdraw { reason, by } => {
            draft.check_item()?;
            if work.item.status.is_ended() {
                return Ok(ItemStepOutcome::Repeated);
            }
            draft.by.clone_from(by);
            check_reason(reason.as_deref())?;
            ending::withdraw_item(&mut draft, reason.as_deref());
        }
        ItemInput::Overdue => {
            draft.check_item()?;
            draft.check_due(work.item.due_at)?;
            ending::fail_or_escalate(&mut draft, ending::ItemFailureReason::Overdue);
        }
    }
    ending::end_if_decided(&mut draft);
    Ok(ItemStepOutcome::Changed(Box::new(draft.into_change(work))))
}

fn assign_opening(
    draft: &mut ItemStepDraft<'_>,
    person: &PersonId,
    next: AssignmentId,
) -> Result<(), ItemRefusal> {
    draft.check_item()?;
    if draft.work.opening_count() == 0 {
        return Err(ItemRefusal::NoOpening { input: draft.input });
    }
    draft.check_receiver(person)?;
    draft.check_total()?;
    draft.add_assignment(next, person, ItemLogKind::Assigned, None);
    Ok(())
}

/// A repeated submission succeeds if its answer equals the first one.
fn repeated_answer(
    work: &ItemAggregate,
    id: AssignmentId,
    answer: &RawJson,
) -> Result<ItemStepOutcome, ItemRefusal> {
    let first = work.assignments.get(&id).and_then(|one| one.answer.as_ref());
    if first == Some(answer) {
        return Ok(ItemStepOutcome::Repeated);
    }
    Err(ItemRefusal::OtherAnswer { status: AssignmentStatus::Completed, input: ItemInputKind::Submit })
}

fn submit_answer(draft: &mut ItemStepDraft<'_>, id: AssignmentId, answer: &RawJson) {
    debug_assert!(answer.len() <= MAX_ANSWER_BYTES, "rules::check bounds its size");
    let now = draft.now;
    let correction = draft.change_assignment(id, ItemLogKind::Submitted, None, |one| {
        one.status = AssignmentStatus::Completed;
        one.completed_at = Some(now);
        one.deadline = None;
        one.answer = Some(answer.clone());
        one.refers_to.is_some()
    });
    if correction.unwrap_or(false) {
        ending::recompute_agreement(draft);
    }
}

fn skip_assignment(
    draft: &mut ItemStepDraft<'_>,
    id: AssignmentId,
    reason: Option<&str>,
) -> Result<(), ItemRefusal> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if draft.queue.skip_requires_reason && reason.is_none() {
        return Err(ItemRefusal::ReasonNeeded);
    }
    check_reason(reason)?;
    let now = draft.now;
    draft.change_assignment(id, ItemLogKind::Skipped, reason, |one| {
        one.status = AssignmentStatus::Skipped;
        one.skipped_at = Some(now);
        one.deadline = None;
        one.skip_reason = reason.map(str::to_owned);
    });
    if draft.queue.reassign_skipped {
        reassign::reassign_slot(draft, id, SlotReceiver::Anyone);
    }
    Ok(())
}

fn expire_assignment(
    draft: &mut ItemStepDraft<'_>,
    id: AssignmentId,
    next: AssignmentId,
) -> Result<(), ItemRefusal> {
    let deadline = draft.work.assignments.get(&id).and_then(|one| one.deadline);
    draft.check_due(deadline)?;
    let now = draft.now;
    draft.change_assignment(id, ItemLogKind::Expired, None, |one| {
        one.status = AssignmentStatus::Expired;
        one.expired_at = Some(now);
        one.deadline = None;
    });
    if draft.queue.reassign_expired {
        let receiver = reassign::receiver_after_expiry(draft, id, next);
        reassign::reassign_slot(draft, id, receiver);
    }
    Ok(())
}

fn revoke_assignment(
    draft: &mut ItemStepDraft<'_>,
    id: AssignmentId,
    to: Option<&PersonId>,
    next: AssignmentId,
) {
    let now = draft.now;
    draft.change_assignment(id, ItemLogKind::Revoked, None, |one| {
        one.status = AssignmentStatus::Expired;
        one.expired_at = Some(now);
        one.revoked_at = Some(now);
        one.deadline = None;
    });
    reassign::reassign_slot(draft, id, SlotReceiver::from_person(to, next));
}

fn reassign_freed_slot(
    draft: &mut ItemStepDraft<'_>,
    id: AssignmentId,
    to: Option<&PersonId>,
    next: AssignmentId,
) -> Result<(), ItemRefusal> {
    let input = draft.input;
    if !draft.work.assignments.get(&id).is_some_and(ItemAssignment::has_slot) {
        return Err(ItemRefusal::GivenOn { input });
    }
    if let Some(person) = to {
        draft.check_receiver(person)?;
    }
    let attempts = draft.work.attempt_count();
    if attempts + draft.work.opening_count() + 1 > draft.max_attempts() {
        return Err(ItemRefusal::Exhausted { input, attempts });
    }
    reassign::reassign_slot(draft, id, SlotReceiver::from_person(to, next));
    Ok(())
}

fn assign_correction(
    draft: &mut ItemStepDraft<'_>,
    id: AssignmentId,
    person: Option<&PersonId>,
    next: AssignmentId,
) -> Result<(), ItemRefusal> {
    let mut corrections = draft.work.assignments.values().filter(|one| one.refers_to == Some(id));
    if let Some(other) = corrections.find(|one| one.status.is_open()) {
        return Err(ItemRefusal::BeingCorrected(other.id));
    }
    let Some(completed) = draft.work.assignments.get(&id) else { return Err(ItemRefusal::Unknown(id)) };
    let person = person.unwrap_or(&completed.person).clone();
    draft.add_assignment(next, &person, ItemLogKind::Correction, Some(id));
    Ok(())
}

fn check_reason(reason: Option<&str>) -> Result<(), ItemRefusal> {
    match reason {
        Some(reason) if reason.len() > MAX_REASON_BYTES => Err(ItemRefusal::ReasonTooLong(MAX_REASON_BYTES)),
        Some(_) | None => Ok(()),
    }
}

/// A change under construction.
#[derive(Debug)]
pub(super) struct ItemStepDraft<'a> {
    pub(super) work: ItemAggregate,
    pub(super) queue: &'a QueueConfig,
    pub(super) state: QueueState,
    pub(super) escalates_to: Option<&'a QueueConfig>,
    pub(super) input: ItemInputKind,
    pub(super) by: Option<String>,
    pub(super) now: Timestamp,
    /// The item takes a new queue position.
    pub(super) reopened: bool,
    pub(super) told: Option<ItemOutcome>,
    changed: Vec<AssignmentId>,
    log: Vec<ItemLogEntry>,
}

impl<'a> ItemStepDraft<'a> {
    fn from_work(
        work: &ItemAggregate,
        setting: ItemQueueContext<'a>,
        input: ItemInputKind,
        now: Timestamp,
    ) -> Self {
        Self {
            work: work.clone(),
            queue: setting.queue,
            state: setting.state,
            escalates_to: setting.escalates_to,
            input,
            by: None,
            now,
            reopened: false,
            told: None,
            changed: Vec::new(),
            log: Vec::new(),
        }
    }

    fn into_change(mut self, before: &ItemAggregate) -> ItemChange {
        self.changed.sort_unstable();
        self.changed.dedup();
        let needs = self.work.opening_count();
        let change = match (before.opening_count(), needs) {
            (0, 0) => OpeningChange::None,
            (_, 0) => OpeningChange::Close,
            (0, _) => OpeningChange::Place,
            (_, _) if self.reopened => OpeningChange::Place,
            (_, _) => OpeningChange::Update,
        };
        let opening = ItemOpening { change, needs, barred: self.work.barred_persons(self.queue) };
        ItemChange { work: self.work, changed: self.changed, log: self.log, opening, told: self.told }
    }

    /// The table row for an assignment, after checking that it belongs to the person.
    fn check_assignment(
        &self,
        id: AssignmentId,
        person: Option<&PersonId>,
    ) -> Result<AssignmentEffect, ItemRefusal> {
        let one = self.work.assignments.get(&id).ok_or(ItemRefusal::Unknown(id))?;
        if let Some(person) = person.filter(|person| one.person != **person) {
            return Err(ItemRefusal::NotTheirs(person.clone()));
        }
        let input = self.input;
        let line = table::assignment_effect(one.status, input);
        let line = line.ok_or(ItemRefusal::Assignment { status: one.status, input })?;
        match line {
            // An open assignment implies an open item, or corrects one of a done item.
            AssignmentEffect::To(_) | AssignmentEffect::Repeats => {}
            AssignmentEffect::Follows(_) => self.check_item()?,
        }
        Ok(line)
    }

    fn check_item(&self) -> Result<(), ItemRefusal> {
        let (status, input) = (self.work.item.status, self.input);
        if table::item_outcomes(status, input).is_empty() {
            return Err(ItemRefusal::Item { status, input });
        }
        Ok(())
    }

    fn check_due(&self, at: Option<Timestamp>) -> Result<(), ItemRefusal> {
        let input = self.input;
        match at {
            None => Err(ItemRefusal::NoDeadline { input }),
            Some(at) if at > self.now => Err(ItemRefusal::NotDue { input, at, now: self.now }),
            Some(_) => Ok(()),
        }
    }

    fn check_receiver(&self, person: &PersonId) -> Result<(), ItemRefusal> {
        let (input, person) = (self.input, person.clone());
        if !self.queue.people.includes(&person) {
            return Err(ItemRefusal::NotEligible { input, person });
        }
        if self.work.is_barred(&person, self.queue) {
            return Err(ItemRefusal::Barred { input, person });
        }
        Ok(())
    }

    fn check_total(&self) -> Result<(), ItemRefusal> {
        let attempts = self.work.attempt_count();
        if attempts >= self.max_attempts() {
            return Err(ItemRefusal::Exhausted { input: self.input, attempts });
        }
        Ok(())
    }

    pub(super) fn max_attempts(&self) -> usize {
        usize::try_from(self.queue.max_attempts_total).unwrap_or(usize::MAX)
    }

    /// Creates an assignment. `about`: the one whose slot it takes, or the one it corrects.
    pub(super) fn add_assignment(
        &mut self,
        id: AssignmentId,
        person: &PersonId,
        what: ItemLogKind,
        about: Option<AssignmentId>,
    ) {
        let refers_to = about.filter(|_| what == ItemLogKind::Correction);
        let earlier = self.work.assignments.values().filter(|one| one.person == *person);
        let attempts = earlier.map(|one| one.attempts).max().unwrap_or(0);
        let one = ItemAssignment {
            id,
            item: self.work.item.id.clone(),
            person: person.clone(),
            queue: self.work.item.queue.clone(),
            status: AssignmentStatus::Pending,
            deadline: self.queue.pre_assignment_timeout.map(|length| self.now.plus(length)),
            attempts,
            attempt: self.work.attempts_of(person) + 1,
            answer: None,
            skip_reason: None,
            refers_to,
            created_at: self.now,
            started_at: None,
            heartbeat_at: None,
            completed_at: None,
            expired_at: None,
            skipped_at: None,
            place: SlotState::Here,
            revoked_at: None,
        };
        self.work.assignments.insert(id, one);
        self.changed.push(id);
        self.write_log(what, Some(id), about, None);
    }

    /// Marks it as changed, without a log entry of its own.
    pub(super) fn mark_changed(&mut self, id: AssignmentId) {
        self.changed.push(id);
    }

    fn start_assignment(&mut self, id: AssignmentId) {
        let (now, timeout) = (self.now, self.queue.timeout);
        self.change_assignment(id, ItemLogKind::Started, None, |one| {
            one.status = AssignmentStatus::InProgress;
            one.started_at = Some(now);
            one.deadline = Some(now.plus(timeout));
            one.attempts += 1;
        });
    }

    fn extend_deadline(&mut self, id: AssignmentId) {
        let (now, timeout) = (self.now, self.queue.timeout);
        self.change_assignment(id, ItemLogKind::Extended, None, |one| {
            one.heartbeat_at = Some(now);
            one.deadline = one.deadline.max(Some(now.plus(timeout)));
        });
    }

    pub(super) fn change_assignment<T>(
        &mut self,
        id: AssignmentId,
        what: ItemLogKind,
        reason: Option<&str>,
        change: impl FnOnce(&mut ItemAssignment) -> T,
    ) -> Option<T> {
        let changed = change(self.work.assignments.get_mut(&id)?);
        self.changed.push(id);
        self.write_log(what, Some(id), None, reason);
        Some(changed)
    }

    /// Appends a log entry about the item or one of its assignments in their current state.
    pub(super) fn write_log(
        &mut self,
        what: ItemLogKind,
        assignment: Option<AssignmentId>,
        about: Option<AssignmentId>,
        reason: Option<&str>,
    ) {
        self.work.item.entries += 1;
        let one = assignment.and_then(|id| self.work.assignments.get(&id));
        self.log.push(ItemLogEntry {
            no: self.work.item.entries,
            at: self.now,
            what,
            queue: self.work.item.queue.clone(),
            item: self.work.item.status,
            assignment,
            person: one.map(|one| one.person.clone()),
            deadline: one.and_then(|one| one.deadline),
            about,
            reason: reason.map(str::to_owned),
            by: self.by.clone(),
        });
    }
}
