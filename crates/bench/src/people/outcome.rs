//! Verification after the clock has stopped: every item is done, by as many different people as it needs,
//! with the acknowledged answers.
//!
//! It asks over HTTP, so that it works for every target.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::crowd::{Answer, expected_answer};
use super::queue::Queue;
use crate::error::{BenchError, Result};
use crate::lists::{all, nothing_wrong, read};
use crate::wire::Connection;

#[derive(Debug, Clone, Deserialize)]
struct Assignment {
    assignment_id: String,
    item_id: String,
    person: String,
    status: String,
    answer: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Item {
    item_id: String,
    status: String,
}

#[derive(Debug, Deserialize)]
struct Stats {
    items: Vec<Totals>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Totals {
    pending: usize,
    in_progress: usize,
    completed: usize,
    expired: usize,
    skipped: usize,
}

/// Fails unless the queue is complete and contains these acknowledged answers.
pub(crate) async fn all_done(front: &mut Connection, queue: &Queue, answers: &[Answer]) -> Result<()> {
    let name = &queue.name;
    let wrong =
        |text: String| BenchError::Wrong(format!("the queue {name} of {} items: {text}", queue.items));
    let path = format!("/v1/queue_stats?queue={name}&by=queue");
    let stats: Stats = read(&path, &front.get(&path).await?)?;
    judge_totals(&stats.items, queue.items * queue.overlap).map_err(wrong)?;
    let items: Vec<Item> = all(front, &format!("/v1/items?queue={name}")).await?;
    judge_items(queue, &items).map_err(wrong)?;
    let found: Vec<Assignment> = all(front, &format!("/v1/assignments?queue={name}")).await?;
    judge(queue, &found, answers).map_err(wrong)
}

fn judge_totals(found: &[Totals], answers: usize) -> std::result::Result<(), String> {
    let wanted = Totals { pending: 0, in_progress: 0, completed: answers, expired: 0, skipped: 0 };
    match found {
        [totals] if *totals == wanted => Ok(()),
        _ => Err(format!("its totals are {found:?}, not {wanted:?}")),
    }
}

fn judge_items(queue: &Queue, found: &[Item]) -> std::result::Result<(), String> {
    let mut by_id: BTreeMap<&str, &str> =
        found.iter().map(|item| (item.item_id.as_str(), item.status.as_str())).collect();
    let mut wrong = Vec::new();
    if by_id.len() != found.len() {
        wrong.push(format!("{} items are listed twice", found.len() - by_id.len()));
    }
    for number in 0..queue.items {
        let id = queue.item(number);
        match by_id.remove(id.as_str()) {
            Some("done") => {}
            Some(status) => wrong.push(format!("item {id} is {status}")),
            None => wrong.push(format!("item {id} is missing")),
        }
    }
    wrong.extend(by_id.keys().map(|id| format!("item {id} was not imported")));
    nothing_wrong(&wrong)
}

fn judge(queue: &Queue, found: &[Assignment], answers: &[Answer]) -> std::result::Result<(), String> {
    let mut wrong = Vec::new();
    let mut told: BTreeMap<&str, &Answer> = BTreeMap::new();
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
        let (id, wanted) = (queue.item(number), queue.overlap);
        let count = by_item.get(id.as_str()).map_or(0, Vec::len);
        if count != wanted {
            wrong.push(format!("item {id} was completed {count} times, not {wanted}"));
        }
    }
    nothing_wrong(&wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue { name: "q".to_owned(), items: 2, overlap: 2, people: 2 }
    }

    fn assignment(id: &str, item: &str, person: &str) -> Assignment {
        Assignment {
            assignment_id: id.to_owned(),
            item_id: item.to_owned(),
            person: person.to_owned(),
            status: "completed".to_owned(),
            answer: Some(expected_answer(item, person)),
        }
    }

    fn good() -> Vec<Assignment> {
        [("a", "q-0", "ann"), ("b", "q-0", "bob"), ("c", "q-1", "bob"), ("d", "q-1", "ann")]
            .map(|(id, item, person)| assignment(id, item, person))
            .to_vec()
    }

    fn told(found: &[Assignment]) -> Vec<Answer> {
        let answer = |one: &Assignment| Answer {
            assignment: one.assignment_id.clone(),
            item: one.item_id.clone(),
            person: one.person.clone(),
        };
        found.iter().map(answer).collect()
    }

    #[track_caller]
    fn says(found: &[Assignment], answers: &[Answer], words: &str) {
        let said = judge(&queue(), found, answers).err().unwrap_or_default();
        assert!(said.contains(words), "{said:?} does not say {words:?}");
    }

    #[test]
    fn every_item_is_completed_by_as_many_different_people_as_it_needs() {
        assert_eq!(judge(&queue(), &good(), &told(&good())), Ok(()));
        let with = |at: usize, other: Assignment| {
            let mut found = good();
            found[at] = other;
            found
        };
        says(&good()[..3], &told(&good()), "the completed assignment d is missing");
        says(&good()[..3], &told(&good()[..3]), "item q-1 was completed 1 times, not 2");
        says(&good(), &told(&good()[..3]), "the completion of assignment d was not acknowledged");
        let other = with(3, assignment("d", "q-1", "bob"));
        says(&other, &told(&other), "item q-1 was given to bob twice");
        says(&other, &told(&good()), "assignment d is not as acknowledged to ann");
        let open = with(3, Assignment { status: "in_progress".to_owned(), ..assignment("d", "q-1", "ann") });
        says(&open, &told(&good()), "assignment d is in_progress");
        let mute = with(3, Assignment { answer: None, ..assignment("d", "q-1", "ann") });
        says(&mute, &told(&good()), "the answer of assignment d is None");
        let answers = [told(&good()), told(&good()[..1])].concat();
        says(&good(), &answers, "assignment a was given twice");
    }

    #[test]
    fn every_item_is_there_once_and_done() {
        let item = |id: &str, status: &str| Item { item_id: id.to_owned(), status: status.to_owned() };
        let judged = |found: &[Item]| judge_items(&queue(), found).err().unwrap_or_default();
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
    fn totals_have_nothing_but_what_was_completed() {
        let totals =
            |pending, completed| Totals { pending, in_progress: 0, completed, expired: 0, skipped: 0 };
        assert_eq!(judge_totals(&[totals(0, 4)], 4), Ok(()));
        for wrong in [vec![], vec![totals(1, 4)], vec![totals(0, 3)], vec![totals(0, 4), totals(0, 4)]] {
            assert!(judge_totals(&wrong, 4).is_err(), "{wrong:?}");
        }
    }
}
