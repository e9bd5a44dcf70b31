//! The outcome of an ended item, as delivered to the execution that waits for it.

use std::borrow::Cow;

use serde::Serialize;

use super::agreement::{self, AnswerAgreement};
use super::item::ItemAggregate;
use super::limits::MAX_TOLD_BYTES;
use super::status::ItemStatus;
use crate::action::{self, ActionConclusion, ActionFailure, AttemptOutcome, ErrorClass};
use crate::definition::{ActionSpec, FailureRule};
use crate::id::{AssignmentId, ItemId, Name, PersonId};
use crate::machine::Machine;
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemOutcome {
    pub status: ItemStatus,
    pub reason: Option<String>,
    /// `{item, queue, status, reason?, answers, answers_left_out?, agreement?, agreed}`.
    pub payload: RawJson,
    /// For an escalated item: the event that its queue's `escalate` names.
    pub event: Option<Name>,
}

#[derive(Serialize)]
struct ItemOutcomePayload<'a> {
    item: &'a ItemId,
    queue: &'a Name,
    status: ItemStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    answers: Vec<ItemOutcomeAnswer<'a>>,
    /// Number of answers left out because together they exceed the size limit of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers_left_out: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<&'a AnswerAgreement>,
    agreed: bool,
}

#[derive(Serialize)]
struct ItemOutcomeAnswer<'a> {
    assignment: AssignmentId,
    person: &'a PersonId,
    answer: &'a RawJson,
    completed_at: Option<Timestamp>,
}

impl ItemOutcome {
    pub(super) fn from_work(work: &ItemAggregate, event: Option<Name>) -> Self {
        let item = &work.item;
        let answers = agreement::counting_answers(work).into_iter().map(|(one, answer)| ItemOutcomeAnswer {
            assignment: one.id,
            person: &one.person,
            answer,
            completed_at: one.completed_at,
        });
        let mut payload = ItemOutcomePayload {
            item: &item.id,
            queue: &item.queue,
            status: item.status,
            reason: item.reason.as_deref(),
            answers: answers.collect(),
            answers_left_out: None,
            agreement: item.agreement.as_ref(),
            agreed: item.agreement.as_ref().is_some_and(|agreement| agreement.agreed),
        };
        let mut whole = RawJson::from_value(&payload);
        if whole.len() > MAX_TOLD_BYTES {
            payload.answers_left_out = Some(std::mem::take(&mut payload.answers).len());
            whole = RawJson::from_value(&payload);
        }
        Self { status: item.status, reason: item.reason.clone(), payload: whole, event }
    }

    /// The conclusion of the waiting action; `None` if the definition has no such action. An event named by
    /// the queue's `escalate` takes precedence over the action's own event if some state handles it.
    /// Compensation runs in either case.
    pub fn conclusion(
        &self,
        machine: &Machine,
        action: &Name,
        key: &str,
        attempts: u32,
    ) -> Option<ActionConclusion> {
        let spec = self.effective_spec(machine, machine.action_spec(action)?);
        Some(action::conclude_attempt(&spec, key, attempts, self.to_attempt(), 0.0))
    }

    /// The action's spec, with the queue's event in place of the action's own one where it takes precedence.
    pub fn effective_spec<'s>(&self, machine: &Machine, spec: &'s ActionSpec) -> Cow<'s, ActionSpec> {
        let instead = self.event.as_ref().filter(|event| machine.knows_event(event));
        match (instead, &spec.failure) {
            (Some(event), FailureRule::Emit(_) | FailureRule::Incident) => {
                Cow::Owned(ActionSpec { failure: FailureRule::Emit(event.clone()), ..spec.clone() })
            }
            (Some(_), FailureRule::Compensate(_)) | (None, _) => Cow::Borrowed(spec),
        }
    }

    /// The outcome as the end of an attempt of the waiting action.
    pub fn to_attempt(&self) -> AttemptOutcome {
        let class = match self.status {
            ItemStatus::Done => return AttemptOutcome::Success { result: self.payload.clone() },
            ItemStatus::Open | ItemStatus::Failed => "item_failed",
            ItemStatus::Withdrawn => "item_withdrawn",
            ItemStatus::Escalated => "item_escalated",
        };
        let message = match &self.reason {
            Some(reason) => format!("the item is {}: {reason}", self.status),
            None => format!("the item is {}", self.status),
        };
        let class = ErrorClass::named(Name::reserved_name(class));
        AttemptOutcome::Permanent { error: ActionFailure { class, message, status: None } }
    }
}
