//! The pure step: decides the effect of an input on an item and its assignments.

use super::ending;
use super::given::{Assignment, Place};
use super::input::{Input, InputKind};
use super::item::Work;
use super::limits::{MAX_ANSWER_BYTES, MAX_REASON_BYTES};
use super::logbook::{LogEntry, What};
use super::next::{Opening, OpeningChange};
use super::passing_on::{self, Receiver};
use super::queue::QueueConfig;
use super::refusal::Refusal;
use super::status::{AssignmentStatus, QueueState};
use super::table::{self, Line};
use super::told::Told;
use crate::id::{AssignmentId, PersonId};
use crate::raw::RawJson;
use crate::time::Timestamp;

/// The queue that the item is in.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    pub queue: &'a QueueConfig,
    pub state: QueueState,
    /// The escalation queue, if one is configured and exists.
    pub escalates_to: Option<&'a QueueConfig>,
}

/// The result of a legal input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stepped {
    Changed(Box<Change>),
    /// A repetition: answered like the first time.
    Repeated,
}

/// Everything that one input changes, to be committed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The item and all of its assignments after the step.
    pub work: Work,
    /// Assignments that are new or changed.
    pub changed: Vec<AssignmentId>,
    pub log: Vec<LogEntry>,
    pub opening: Opening,
    /// The outcome for the execution that waits for the item.
    pub told: Option<Told>,
}

pub fn step(work: &Work, setting: Setting<'_>, input: &Input, now: Timestamp) -> Result<Stepped, Refusal> {
    let mut draft = Draft::of(work, setting, input.kind(), now);
    match input {
        Input::Assign { person, next } => assign(&mut draft, person, *next)?,
        Input::Start { assignment, person } => {
            if draft.look(*assignment, Some(person))? == Line::Repeats {
                return Ok(Stepped::Repeated);
            }
            draft.started(*assignment);
        }
        Input::Submit { assignment, person, answer } => {
            if draft.look(*assignment, Some(person))? == Line::Repeats {
                return repeated_answer(work, *assignment, answer);
            }
            submit(&mut draft, *assignment, answer);
        }
        Input::Skip { assignment, person, reason } => {
            if draft.look(*assignment, Some(person))? == Line::Repeats {
                return Ok(Stepped::Repeated);
            }
            skip(&mut draft, *assignment, reason.as_deref())?;
        }
        Input::Heartbeat { assignment, person } => {
            draft.look(*assignment, Some(person))?;
            draft.extended(*assignment);
        }
        Input::Expire { assignment, next } => {
            draft.look(*assignment, None)?;
            expire(&mut draft, *assignment, *next)?;
        }
        Input::Revoke { assignment, to, next, by } => {
            draft.look(*assignment, None)?;
            draft.by.clone_from(by);
            if let Some(person) = to {
                draft.check_receiver(person)?;
            }
            revoke(&mut draft, *assignment, to.as_ref(), *next);
        }
        Input::Reassign { assignment, to, next, by } => {
            draft.look(*assignment, None)?;
            draft.by.clone_from(by);
            reassign(&mut draft, *assignment, to.as_ref(), *next)?;
        }
        Input::Correct { assignment, person, next, by } => {
            draft.look(*assignment, None)?;
            draft.by.clone_from(by);
            correct(&mut draft, *assignment, person.as_ref(), *next)?;
        }
        Input::Withdraw { reason, by } => {
            draft.check_item()?;
            if work.item.status.is_ended() {
                return Ok(Stepped::Repeated);
            }
            draft.by.clone_from(by);
            check_reason(reason.as_deref())?;
            ending::withdraw(&mut draft, reason.as_deref());
        }
        Input::Overdue => {
            draft.check_item()?;
            draft.check_due(work.item.due_at)?;
            ending::give_up(&mut draft, ending::Why::Overdue);
        }
    }
    ending::look(&mut draft);
    Ok(Stepped::Changed(Box::new(draft.change(work))))
}

fn assign(draft: &mut Draft<'_>, person: &PersonId, next: AssignmentId) -> Result<(), Refusal> {
    draft.check_item()?;
    if draft.work.needs() == 0 {
        return Err(Refusal::NoOpening { input: draft.input });
    }
    draft.check_receiver(person)?;
    draft.check_total()?;
    draft.give(next, person, What::Assigned, None);
    Ok(())
}

/// A repeated submission succeeds if its answer equals the first one.
fn repeated_answer(work: &Work, id: AssignmentId, answer: &RawJson) -> Result<Stepped, Refusal> {
    let first = work.assignments.get(&id).and_then(|one| one.answer.as_ref());
    if first == Some(answer) {
        return Ok(Stepped::Repeated);
    }
    Err(Refusal::OtherAnswer { status: AssignmentStatus::Completed, input: InputKind::Submit })
}

fn submit(draft: &mut Draft<'_>, id: AssignmentId, answer: &RawJson) {
    debug_assert!(answer.len() <= MAX_ANSWER_BYTES, "rules::check bounds its size");
    let now = draft.now;
    let correction = draft.change_one(id, What::Submitted, None, |one| {
        one.status = AssignmentStatus::Completed;
        one.completed_at = Some(now);
        one.deadline = None;
        one.answer = Some(answer.clone());
        one.refers_to.is_some()
    });
    if correction.unwrap_or(false) {
        ending::agree_again(draft);
    }
}

fn skip(draft: &mut Draft<'_>, id: AssignmentId, reason: Option<&str>) -> Result<(), Refusal> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if draft.queue.skip_requires_reason && reason.is_none() {
        return Err(Refusal::ReasonNeeded);
    }
    check_reason(reason)?;
    let now = draft.now;
    draft.change_one(id, What::Skipped, reason, |one| {
        one.status = AssignmentStatus::Skipped;
        one.skipped_at = Some(now);
        one.deadline = None;
        one.skip_reason = reason.map(str::to_owned);
    });
    if draft.queue.reassign_skipped {
        passing_on::pass_on(draft, id, Receiver::Anyone);
    }
    Ok(())
}

fn expire(draft: &mut Draft<'_>, id: AssignmentId, next: AssignmentId) -> Result<(), Refusal> {
    let deadline = draft.work.assignments.get(&id).and_then(|one| one.deadline);
    draft.check_due(deadline)?;
    let now = draft.now;
    draft.change_one(id, What::Expired, None, |one| {
        one.status = AssignmentStatus::Expired;
        one.expired_at = Some(now);
        one.deadline = None;
    });
    if draft.queue.reassign_expired {
        let receiver = passing_on::after_expiry(draft, id, next);
        passing_on::pass_on(draft, id, receiver);
    }
    Ok(())
}

fn revoke(draft: &mut Draft<'_>, id: AssignmentId, to: Option<&PersonId>, next: AssignmentId) {
    let now = draft.now;
    draft.change_one(id, What::Revoked, None, |one| {
        one.status = AssignmentStatus::Expired;
        one.expired_at = Some(now);
        one.revoked_at = Some(now);
        one.deadline = None;
    });
    passing_on::pass_on(draft, id, Receiver::named(to, next));
}

fn reassign(
    draft: &mut Draft<'_>,
    id: AssignmentId,
    to: Option<&PersonId>,
    next: AssignmentId,
) -> Result<(), Refusal> {
    let input = draft.input;
    if !draft.work.assignments.get(&id).is_some_and(Assignment::has_place) {
        return Err(Refusal::GivenOn { input });
    }
    if let Some(person) = to {
        draft.check_receiver(person)?;
    }
    let attempts = draft.work.attempts();
    if attempts + draft.work.needs() + 1 > draft.most() {
        return Err(Refusal::Exhausted { input, attempts });
    }
    passing_on::pass_on(draft, id, Receiver::named(to, next));
    Ok(())
}

fn correct(
    draft: &mut Draft<'_>,
    id: AssignmentId,
    person: Option<&PersonId>,
    next: AssignmentId,
) -> Result<(), Refusal> {
    let mut corrections = draft.work.assignments.values().filter(|one| one.refers_to == Some(id));
    if let Some(other) = corrections.find(|one| one.status.is_open()) {
        return Err(Refusal::BeingCorrected(other.id));
    }
    let Some(completed) = draft.work.assignments.get(&id) else { return Err(Refusal::Unknown(id)) };
    let person = person.unwrap_or(&completed.person).clone();
    draft.give(next, &person, What::Correction, Some(id));
    Ok(())
}

fn check_reason(reason: Option<&str>) -> Result<(), Refusal> {
    match reason {
        Some(reason) if reason.len() > MAX_REASON_BYTES => Err(Refusal::ReasonTooLong(MAX_REASON_BYTES)),
        Some(_) | None => Ok(()),
    }
}

/// A change under construction.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) work: Work,
    pub(super) queue: &'a QueueConfig,
    pub(super) state: QueueState,
    pub(super) escalates_to: Option<&'a QueueConfig>,
    pub(super) input: InputKind,
    pub(super) by: Option<String>,
    pub(super) now: Timestamp,
    /// The item takes a new queue position.
    pub(super) reopened: bool,
    pub(super) told: Option<Told>,
    changed: Vec<AssignmentId>,
    log: Vec<LogEntry>,
}

impl<'a> Draft<'a> {
    fn of(work: &Work, setting: Setting<'a>, input: InputKind, now: Timestamp) -> Self {
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

    fn change(mut self, before: &Work) -> Change {
        self.changed.sort_unstable();
        self.changed.dedup();
        let needs = self.work.needs();
        let change = match (before.needs(), needs) {
            (0, 0) => OpeningChange::None,
            (_, 0) => OpeningChange::Close,
            (0, _) => OpeningChange::Place,
            (_, _) if self.reopened => OpeningChange::Place,
            (_, _) => OpeningChange::Update,
        };
        let opening = Opening { change, needs, barred: self.work.barred(self.queue) };
        Change { work: self.work, changed: self.changed, log: self.log, opening, told: self.told }
    }

    /// The table row for an assignment, after checking that it belongs to the person.
    fn look(&self, id: AssignmentId, person: Option<&PersonId>) -> Result<Line, Refusal> {
        let one = self.work.assignments.get(&id).ok_or(Refusal::Unknown(id))?;
        if let Some(person) = person.filter(|person| one.person != **person) {
            return Err(Refusal::NotTheirs(person.clone()));
        }
        let input = self.input;
        let line = table::line(one.status, input);
        let line = line.ok_or(Refusal::Assignment { status: one.status, input })?;
        match line {
            // An open assignment implies an open item, or corrects one of a done item.
            Line::To(_) | Line::Repeats => {}
            Line::Follows(_) => self.check_item()?,
        }
        Ok(line)
    }

    fn check_item(&self) -> Result<(), Refusal> {
        let (status, input) = (self.work.item.status, self.input);
        if table::outcomes(status, input).is_empty() {
            return Err(Refusal::Item { status, input });
        }
        Ok(())
    }

    fn check_due(&self, at: Option<Timestamp>) -> Result<(), Refusal> {
        let input = self.input;
        match at {
            None => Err(Refusal::NoDeadline { input }),
            Some(at) if at > self.now => Err(Refusal::NotDue { input, at, now: self.now }),
            Some(_) => Ok(()),
        }
    }

    fn check_receiver(&self, person: &PersonId) -> Result<(), Refusal> {
        let (input, person) = (self.input, person.clone());
        if !self.queue.people.includes(&person) {
            return Err(Refusal::NotEligible { input, person });
        }
        if self.work.bars(&person, self.queue) {
            return Err(Refusal::Barred { input, person });
        }
        Ok(())
    }

    fn check_total(&self) -> Result<(), Refusal> {
        let attempts = self.work.attempts();
        if attempts >= self.most() {
            return Err(Refusal::Exhausted { input: self.input, attempts });
        }
        Ok(())
    }

    pub(super) fn most(&self) -> usize {
        usize::try_from(self.queue.max_attempts_total).unwrap_or(usize::MAX)
    }

    /// Creates an assignment. `about`: the one whose slot it takes, or the one it corrects.
    pub(super) fn give(
        &mut self,
        id: AssignmentId,
        person: &PersonId,
        what: What,
        about: Option<AssignmentId>,
    ) {
        let refers_to = about.filter(|_| what == What::Correction);
        let earlier = self.work.assignments.values().filter(|one| one.person == *person);
        let attempts = earlier.map(|one| one.attempts).max().unwrap_or(0);
        let one = Assignment {
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
            place: Place::Here,
            revoked_at: None,
        };
        self.work.assignments.insert(id, one);
        self.changed.push(id);
        self.write(what, Some(id), about, None);
    }

    /// Marks it as changed, without a log entry of its own.
    pub(super) fn touch(&mut self, id: AssignmentId) {
        self.changed.push(id);
    }

    fn started(&mut self, id: AssignmentId) {
        let (now, timeout) = (self.now, self.queue.timeout);
        self.change_one(id, What::Started, None, |one| {
            one.status = AssignmentStatus::InProgress;
            one.started_at = Some(now);
            one.deadline = Some(now.plus(timeout));
            one.attempts += 1;
        });
    }

    fn extended(&mut self, id: AssignmentId) {
        let (now, timeout) = (self.now, self.queue.timeout);
        self.change_one(id, What::Extended, None, |one| {
            one.heartbeat_at = Some(now);
            one.deadline = one.deadline.max(Some(now.plus(timeout)));
        });
    }

    pub(super) fn change_one<T>(
        &mut self,
        id: AssignmentId,
        what: What,
        reason: Option<&str>,
        change: impl FnOnce(&mut Assignment) -> T,
    ) -> Option<T> {
        let changed = change(self.work.assignments.get_mut(&id)?);
        self.changed.push(id);
        self.write(what, Some(id), None, reason);
        Some(changed)
    }

    /// Appends a log entry about the item or one of its assignments in their current state.
    pub(super) fn write(
        &mut self,
        what: What,
        assignment: Option<AssignmentId>,
        about: Option<AssignmentId>,
        reason: Option<&str>,
    ) {
        self.work.item.entries += 1;
        let one = assignment.and_then(|id| self.work.assignments.get(&id));
        self.log.push(LogEntry {
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
