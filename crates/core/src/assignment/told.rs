//! What whoever waits for an item is told when it has ended.

use std::borrow::Cow;

use serde::Serialize;

use super::agreement::{self, Agreement};
use super::item::Work;
use super::limits::MAX_TOLD_BYTES;
use super::status::ItemStatus;
use crate::action::{self, ActionError, Attempt, Conclusion, ErrorClass};
use crate::definition::{ActionSpec, FailureRule};
use crate::id::{AssignmentId, ItemId, Name, PersonId};
use crate::machine::Machine;
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub status: ItemStatus,
    pub reason: Option<String>,
    /// `{item, queue, status, reason?, answers, answers_left_out?, agreement?, agreed}`.
    pub payload: RawJson,
    /// Of an item that was escalated: the event that its queue asks for.
    pub event: Option<Name>,
}

#[derive(Serialize)]
struct Payload<'a> {
    item: &'a ItemId,
    queue: &'a Name,
    status: ItemStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    answers: Vec<Answer<'a>>,
    /// How many there are, where all of them together are more than an event may carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers_left_out: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<&'a Agreement>,
    agreed: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    assignment: AssignmentId,
    person: &'a PersonId,
    answer: &'a RawJson,
    completed_at: Option<Timestamp>,
}

impl Told {
    pub(super) fn of(work: &Work, event: Option<Name>) -> Self {
        let item = &work.item;
        let answers = agreement::answers(work).into_iter().map(|(one, answer)| Answer {
            assignment: one.id,
            person: &one.person,
            answer,
            completed_at: one.completed_at,
        });
        let mut payload = Payload {
            item: &item.id,
            queue: &item.queue,
            status: item.status,
            reason: item.reason.as_deref(),
            answers: answers.collect(),
            answers_left_out: None,
            agreement: item.agreement.as_ref(),
            agreed: item.agreement.as_ref().is_some_and(|agreement| agreement.agreed),
        };
        let mut whole = RawJson::of(&payload);
        if whole.len() > MAX_TOLD_BYTES {
            payload.answers_left_out = Some(std::mem::take(&mut payload.answers).len());
            whole = RawJson::of(&payload);
        }
        Self { status: item.status, reason: item.reason.clone(), payload: whole, event }
    }

    /// How the action ends that waits for it; `None` where the definition has no such action. The event that its
    /// queue asks for goes before the one that the action names, if some state handles it. What is to be undone is
    /// undone all the same.
    pub fn conclusion(
        &self,
        machine: &Machine,
        action: &Name,
        key: &str,
        attempts: u32,
    ) -> Option<Conclusion> {
        let spec = self.spec(machine, machine.action(action)?);
        Some(action::conclude(&spec, key, attempts, self.attempt(), 0.0))
    }

    /// What the action is concluded by.
    pub fn spec<'s>(&self, machine: &Machine, spec: &'s ActionSpec) -> Cow<'s, ActionSpec> {
        let instead = self.event.as_ref().filter(|event| machine.mentions(event));
        match (instead, &spec.failure) {
            (Some(event), FailureRule::Emit(_) | FailureRule::Incident) => {
                Cow::Owned(ActionSpec { failure: FailureRule::Emit(event.clone()), ..spec.clone() })
            }
            (Some(_), FailureRule::Compensate(_)) | (None, _) => Cow::Borrowed(spec),
        }
    }

    /// What that is for the action that waits: the end of its attempt.
    pub fn attempt(&self) -> Attempt {
        let class = match self.status {
            ItemStatus::Done => return Attempt::Success { result: self.payload.clone() },
            ItemStatus::Open | ItemStatus::Failed => "item_failed",
            ItemStatus::Withdrawn => "item_withdrawn",
            ItemStatus::Escalated => "item_escalated",
        };
        let message = match &self.reason {
            Some(reason) => format!("the item is {}: {reason}", self.status),
            None => format!("the item is {}", self.status),
        };
        let class = ErrorClass::named(Name::reserved(class));
        Attempt::Permanent { error: ActionError { class, message, status: None } }
    }
}
