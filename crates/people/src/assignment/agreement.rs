//! Agreement between the answers of an item.

use std::collections::BTreeMap;

use millstream_expr::{CelValue, ExprBudget};
use millstream_model::id::AssignmentId;
use millstream_model::raw::RawJson;
use serde::{Deserialize, Serialize};

use super::item::ItemAggregate;
use super::item_assignment::ItemAssignment;
use super::rules::{self, AnswerScope};
use super::status::AssignmentStatus;

/// Agreement of the answers of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerAgreement {
    /// All answers are equal. A single answer agrees with itself.
    pub agreed: bool,
    pub answers: u32,
    /// Size of the largest group of equal answers.
    pub largest: u32,
    /// The value of the largest group, if it is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<RawJson>,
}

impl AnswerAgreement {
    /// Groups the counting answers by the value of `expression`. An answer on which the expression fails
    /// agrees with no other; rules reject such answers on submission.
    pub fn from_answers(work: &ItemAggregate, expression: &str) -> Self {
        let budget = ExprBudget::default();
        let mut groups: Vec<(Option<(CelValue, RawJson)>, u32)> = Vec::new();
        let answers = counting_answers(work);
        for (assignment, answer) in &answers {
            let judged = AnswerScope { answer, payload: &work.payload, person: &assignment.person };
            let value = rules::evaluate_expression(expression, judged, &budget).ok();
            let same = |group: &&mut (Option<(CelValue, RawJson)>, u32)| match (&group.0, &value) {
                (Some((a, _)), Some((b, _))) => a.equals_within(b, &budget),
                (None, _) | (_, None) => false,
            };
            match groups.iter_mut().find(same) {
                Some((_, count)) => *count += 1,
                None => groups.push((value, 1)),
            }
        }
        let largest = groups.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let mut most = groups.iter().filter(|(_, count)| *count == largest);
        let value = match (most.next(), most.next()) {
            (Some((Some((_, value)), _)), None) => Some(value.clone()),
            (Some((_, _)), _) | (None, _) => None,
        };
        let agreed = groups.len() == 1 && value.is_some();
        Self { agreed, answers: u32::try_from(answers.len()).unwrap_or(u32::MAX), largest, value }
    }
}

/// The completed assignments of an item with the answers that count: the last correction's, or their own.
pub fn counting_answers(work: &ItemAggregate) -> Vec<(&ItemAssignment, &RawJson)> {
    let completed = work.assignments.values().filter(|one| one.status == AssignmentStatus::Completed);
    let mut corrections: BTreeMap<AssignmentId, &ItemAssignment> = BTreeMap::new();
    for one in completed.clone() {
        let Some(about) = one.refers_to else { continue };
        let later = |other: &&ItemAssignment| (other.completed_at, other.id) > (one.completed_at, one.id);
        if !corrections.get(&about).is_some_and(later) {
            corrections.insert(about, one);
        }
    }
    let places = completed.filter(|one| one.refers_to.is_none());
    let mut answers: Vec<(&ItemAssignment, &RawJson)> = places
        .filter_map(|place| {
            let mut last = place;
            // Follows chains of corrections; the number of assignments bounds their length.
            for _ in 0..work.assignments.len() {
                match corrections.get(&last.id) {
                    Some(next) => last = next,
                    None => break,
                }
            }
            Some((place, last.answer.as_ref()?))
        })
        .collect();
    answers.sort_by_key(|(place, _)| (place.completed_at, place.id));
    answers
}
