//! Verification after the clock has stopped: every item is done, by as many different people as it needs,
//! with the acknowledged answers.
//!
//! It asks over HTTP, so that it works for every target.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::crowd::{AcknowledgedAnswer, expected_answer};
use super::queue::BenchQueue;
use crate::error::{BenchError, BenchResult};
use crate::lists::{check_deviations, parse_answer, read_all_pages};
use crate::wire::BenchConnection;

#[derive(Debug, Clone, Deserialize)]
struct BenchAssignment {
    assignment_id: String,
    item_id: String,
    person: String,
    status: String,
    answer: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct BenchQueueItem {
    item_id: String,
    status: String,
}

#[derive(Debug, Deserialize)]
struct BenchQueueStats {
    items: Vec<BenchQueueTotals>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct BenchQueueTotals {
    pending: usize,
    in_progress: usize,
    completed: usize,
    expired: usize,
    skipped: usize,
}

/// Fails unless the queue is complete and contains these acknowledged answers.
pub(crate) async fn verify_queue(
    front: &mut BenchConnection,
    queue: &BenchQueue,
    answers: &[AcknowledgedAnswer],
) -> BenchResult<()> {
    let name = &queue.name;
    let wrong =
        |text: String| BenchError::Wrong(format!("the queue {name} of {} items: {text}", queue.items));
    let path = format!("/v1/queue_stats?queue={name}&by=queue");
    let stats: BenchQueueStats = parse_answer(&path, &front.get(&path).await?)?;
    judge_totals(&stats.items, queue.items * queue.overlap).map_err(wrong)?;
    let items: Vec<BenchQueueItem> = read_all_pages(front, &format!("/v1/items?queue={name}")).await?;
    judge_items(queue, &items).map_err(wrong)?;
    let found: Vec<BenchAssignment> = read_all_pages(front, &format!("/v1/assignments?queue={name}")).await?;
    judge_assignments(queue, &found, answers).map_err(wrong)
}

fn judge_totals(found: &[BenchQueueTotals], answers: usize) -> std::result::Result<(), String> {
    let wanted = BenchQueueTotals { pending: 0, in_progress: 0, completed: answers, expired: 0, skipped: 0 };
    match found {
        [totals] if *totals == wanted => Ok(()),
        _ => Err(format!("its totals are {found:?}, not {wanted:?}")),
    }
}

fn judge_items(queue: &BenchQueue, found: &[BenchQueueItem]) -> std::result::Result<(), String> {
    let mut by_id: BTreeMap<&str, &str> =
        found.iter().map(|item| (item.item_id.as_str(), item.status.as_str())).collect();
    let mut wrong = Vec::new();
    if by_id.len() != found.len() {
        wrong.push(format!("{} items are listed twice", found.len() - by_id.len()));
    }
    for number in 0..queue.items {
        let id = queue.item_name(number);
        match by_id.remove(id.as_str()) {
            Some("done") => {}
            Some(status) => wrong.push(format!("item {id} is {status}")),
            None => wrong.push(format!("item {id} is missing")),
        }
    }
    wrong.extend(by_id.keys().map(|id| format!("item {id} was not imported")));
    check_deviations(&wrong)
}

fn judge_assignments(
    queue: &BenchQueue,
    found: &[BenchAssignment],
    answers: &[AcknowledgedAnswer],
) -> std::result::Result<(), String> {
    let mut wrong = Vec::new();
    let mut told: BTreeMap<&str, &AcknowledgedAnswer> = BTreeMap::new();
    for answer in answers {
        if told.insert(&answer.assignment, answer).is_some() {
            wrong.push(format!("assignment {} was given twice", answer.assignment));
        }
    }
    let mut by_item: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in found {
        let id = &one.assignment_id;
        if one.status != "completed" {
            wrong.push(format!("assignment {id} is {}", one.status));
        }
        if one.answer.as_ref() != Some(&expected_answer(&one.item_id, &one.person)) {
            wrong.push(format!("the answer of assignment {id} is {:?}", one.answer));
        }
        match told.remove(id.as_str()) {
            Some(told) if told.item == one.item_id && told.person == one.person => {}
            Some(told) => wrong.push(format!("assignment {id} is not as acknowledged to {}", told.person)),
            None => wrong.push(format!("the completion of assignment {id} was not acknowledged")),
        }
        let people = by_item.entry(&one.item_id).or_default();
        if people.contains(&one.person.as_str()) {
            wrong.push(format!("item {} was given to {} twice", one.item_id, one.person));
        }
        people.push(&one.person);
    }
    wrong.extend(told.keys().map(|id| format!("the completed assignment {id} is missing")));
    for number in 0..queue.items {
        let (id, wanted) = (queue.item_name(number), queue.overlap);
        let count = by_item.get(id.as_str()).map_or(0, Vec::len);
        if count != wanted {
            wrong.push(format!("item {id} was completed {count} times, not {wanted}"));
        }
    }
    check_deviations(&wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_queue() -> BenchQueue {
        BenchQueue { name: "q".to_owned(), items: 2, overlap: 2, people: 2 }
    }

    fn sample_assignment(id: &str, item: &str, person: &str) -> BenchAssignment {
        BenchAssignment {
            assignment_id: id.to_owned(),
            item_id: item.to_owned(),
            person: person.to_owned(),
            status: "completed".to_owned(),
            answer: Some(expected_answer(item, person)),
        }
    }

    fn correct_assignments() -> Vec<BenchAssignment> {
        [("a", "q-0", "ann"), ("b", "q-0", "bob"), ("c", "q-1", "bob"), ("d", "q-1", "ann")]
            .map(|(id, item, person)| sample_assignment(id, item, person))
            .to_vec()
    }

    fn acknowledged_answers(found: &[BenchAssignment]) -> Vec<AcknowledgedAnswer> {
        let answer = |one: &BenchAssignment| AcknowledgedAnswer {
            assignment: one.assignment_id.clone(),
            item: one.item_id.clone(),
            person: one.person.clone(),
        };
        found.iter().map(answer).collect()
    }

    #[track_caller]
    fn assert_deviation(found: &[BenchAssignment], answers: &[AcknowledgedAnswer], words: &str) {
        let said = judge_assignments(&sample_queue(), found, answers).err().unwrap_or_default();
        assert!(said.contains(words), "{said:?} does not say {words:?}");
    }

    #[test]
    fn items_complete_with_full_overlap() {
        assert_eq!(
            judge_assignments(
                &sample_queue(),
                &correct_assignments(),
                &acknowledged_answers(&correct_assignments())
            ),
            Ok(())
        );
        let with = |at: usize, other: BenchAssignment| {
            let mut found = correct_assignments();
            found[at] = other;
            found
        };
        assert_deviation(
            &correct_assignments()[..3],
            &acknowledged_answers(&correct_assignments()),
            "the completed assignment d is missing",
        );
        assert_deviation(
            &correct_assignments()[..3],
            &acknowledged_answers(&correct_assignments()[..3]),
            "item q-1 was completed 1 times, not 2",
        );
        assert_deviation(
            &correct_assignments(),
            &acknowledged_answers(&correct_assignments()[..3]),
            "the completion of assignment d was not acknowledged",
        );
        let other = with(3, sample_assignment("d", "q-1", "bob"));
        assert_deviation(&other, &acknowledged_answers(&other), "item q-1 was given to bob twice");
        assert_deviation(
            &other,
            &acknowledged_answers(&correct_assignments()),
            "assignment d is not as acknowledged to ann",
        );
        let open = with(
            3,
            BenchAssignment { status: "in_progress".to_owned(), ..sample_assignment("d", "q-1", "ann") },
        );
        assert_deviation(&open, &acknowledged_answers(&correct_assignments()), "assignment d is in_progress");
        let mute = with(3, BenchAssignment { answer: None, ..sample_assignment("d", "q-1", "ann") });
        assert_deviation(
            &mute,
            &acknowledged_answers(&correct_assignments()),
            "the answer of assignment d is None",
        );
        let answers =
            [acknowledged_answers(&correct_assignments()), acknowledged_answers(&correct_assignments()[..1])]
                .concat();
        assert_deviation(&correct_assignments(), &answers, "assignment a was given twice");
    }

    #[test]
    fn verify_finds_missing_or_repeated_items() {
        let item =
            |id: &str, status: &str| BenchQueueItem { item_id: id.to_owned(), status: status.to_owned() };
        let judged = |found: &[BenchQueueItem]| judge_items(&sample_queue(), found).err().unwrap_or_default();
        assert_eq!(judged(&[item("q-0", "done"), item("q-1", "done")]), "");
        assert!(judged(&[item("q-0", "done")]).contains("item q-1 is missing"));
        assert!(judged(&[item("q-0", "done"), item("q-1", "open")]).contains("item q-1 is open"));
        let more = [item("q-0", "done"), item("q-1", "done"), item("q-2", "done")];
        assert!(judged(&more).contains("item q-2 was not imported"));
        assert!(
            judged(&[more[0].clone(), more[0].clone(), more[1].clone()]).contains("1 items are listed twice")
        );
    }

    #[test]
    fn queue_totals_count_only_completed() {
        let totals = |pending, completed| BenchQueueTotals {
            pending,
            in_progress: 0,
            completed,
            expired: 0,
            skipped: 0,
        };
        assert_eq!(judge_totals(&[totals(0, 4)], 4), Ok(()));
        for wrong in [vec![], vec![totals(1, 4)], vec![totals(0, 3)], vec![totals(0, 4), totals(0, 4)]] {
            assert!(judge_totals(&wrong, 4).is_err(), "{wrong:?}");
        }
    }
}
