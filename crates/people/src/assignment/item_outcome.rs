//! The outcome of an ended item, as delivered to the execution that waits for it.

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{AssignmentId, ItemId, Name, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::Serialize;

use super::agreement::{self, AnswerAgreement};
use super::item::ItemAggregate;
use super::limits::MAX_TOLD_BYTES;
use super::status::ItemStatus;

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
