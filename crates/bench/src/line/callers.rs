//! People who ask for the next item on a schedule. Their items are started and submitted after the clock has
//! stopped, so that each next request gets a different item.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde::Deserialize;

use super::shape::LineShape;
use crate::error::{BenchError, BenchResult};
use crate::generator::{AnsweredRequest, LoadErrand, OpenLane};
use crate::lists::parse_answer;

/// Queues that a request covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineQuestion {
    /// One queue, rotating over all queues.
    OneQueue,
    /// All ten queues.
    AllQueues,
    /// One queue, by people who are barred from its head because they already had those items.
    AfterTheHead,
}

#[derive(Debug)]
pub(crate) struct LineCallers {
    shape: LineShape,
    asking: LineQuestion,
    /// The people who ask, in rotation.
    people: Vec<usize>,
    /// People with an item that is not submitted yet.
    busy: RefCell<BTreeSet<usize>>,
    /// (item, person).
    pub(crate) given: RefCell<Vec<(usize, usize)>>,
    pub(crate) nothing: Cell<usize>,
}

#[derive(Debug, Deserialize)]
struct LineNextReply {
    assignment: Option<LineAssignment>,
    item: Option<LineEntry>,
    #[serde(default)]
    already_assigned: bool,
}

#[derive(Debug, Deserialize)]
struct LineAssignment {
    assignment_id: String,
}

#[derive(Debug, Deserialize)]
struct LineEntry {
    item_id: String,
    skills: BTreeSet<String>,
}

impl LineQuestion {
    pub(crate) const ALL: [Self; 3] = [Self::OneQueue, Self::AllQueues, Self::AfterTheHead];

    pub(crate) const fn label_words(self) -> &'static str {
        match self {
            Self::OneQueue => "next in one queue",
            Self::AllQueues => "next in ten queues",
            Self::AfterTheHead => "next after the head of the line",
        }
    }
}

impl LineCallers {
    pub(crate) fn for_shape(shape: LineShape, asking: LineQuestion) -> Self {
        let people = match asking {
            LineQuestion::OneQueue | LineQuestion::AllQueues => LineShape::people_numbers().collect(),
            LineQuestion::AfterTheHead => LineShape::all_rounders(),
        };
        Self {
            shape,
            asking,
            people,
            busy: RefCell::default(),
            given: RefCell::default(),
            nothing: Cell::new(0),
        }
    }

    /// The next person in rotation without an open item.
    fn take_free(&self, number: usize) -> BenchResult<usize> {
        let mut busy = self.busy.borrow_mut();
        let turn = number % self.people.len();
        let free = self.people[turn..].iter().chain(&self.people[..turn]).find(|one| !busy.contains(one));
        let free = *free.ok_or_else(|| {
            BenchError::Wrong(
                "all people have open items: the engine does not keep up, lower --rate".to_owned(),
            )
        })?;
        busy.insert(free);
        Ok(free)
    }

    fn next_request(&self, number: usize, person: usize) -> String {
        let person = LineShape::person_name(person);
        match self.asking {
            LineQuestion::AllQueues => format!("{{\"person\":\"{person}\"}}"),
            // The turns of a person come at even distances: without the quotient each would always use the
            // same queue.
            LineQuestion::OneQueue | LineQuestion::AfterTheHead => {
                let queue = LineShape::queue_name(number + number / self.people.len());
                format!("{{\"person\":\"{person}\",\"queues\":[\"{queue}\"]}}")
            }
        }
    }

    /// The number of the item, if this person may have it.
    fn check_item(&self, person: usize, item: &LineEntry) -> BenchResult<usize> {
        let wrong = |why: &str| {
            Err(BenchError::Wrong(format!(
                "{} was given {}, {why}",
                LineShape::person_name(person),
                item.item_id
            )))
        };
        let number = item.item_id.strip_prefix("i-").and_then(|text| text.parse::<usize>().ok());
        let Some(number) = number.filter(|number| (1..=self.shape.items).contains(number)) else {
            return wrong("which is not in the line");
        };
        if !item.skills.is_subset(&LineShape::person_skills(person)) {
            return wrong("which asks for skills that they do not have");
        }
        if self.asking == LineQuestion::AfterTheHead && number <= self.shape.head_length() {
            return wrong("which they may not have");
        }
        Ok(number)
    }
}

impl LoadErrand for LineCallers {
    async fn run(&self, lane: &mut OpenLane, number: usize) -> BenchResult<AnsweredRequest> {
        let person = self.take_free(number)?;
        let wish = self.next_request(number, person);
        let (connection, buffer) = (&mut lane.connection, &mut lane.request);
        let called =
            connection.call_with_retry(buffer, "/v1/assignments/next", wish.as_bytes(), &[200]).await?;
        let given: LineNextReply = parse_answer("next", &called.body)?;
        if let (Some(assigned), Some(item)) = (given.assignment, given.item) {
            if given.already_assigned {
                let text = format!(
                    "{} has nothing and is given {} again",
                    LineShape::person_name(person),
                    item.item_id
                );
                return Err(BenchError::Wrong(text));
            }
            let item = self.check_item(person, &item)?;
            self.given.borrow_mut().push((item, person));
            let path = format!("/v1/assignments/{}", assigned.assignment_id);
            let person = LineShape::person_name(person);
            let who = format!("{{\"person\":\"{person}\"}}");
            connection.call_with_retry(buffer, &format!("{path}/start"), who.as_bytes(), &[200]).await?;
            let answer = format!("{{\"person\":\"{person}\",\"answer\":{{\"n\":1}}}}");
            connection.call_with_retry(buffer, &format!("{path}/submit"), answer.as_bytes(), &[200]).await?;
        } else {
            self.nothing.set(self.nothing.get() + 1);
        }
        self.busy.borrow_mut().remove(&person);
        Ok(AnsweredRequest { at: called.at, pushed_back: called.pushed_back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_entry(id: &str, skills: &[&str]) -> LineEntry {
        LineEntry { item_id: id.to_owned(), skills: skills.iter().map(|skill| (*skill).to_owned()).collect() }
    }

    #[test]
    fn line_check_finds_forbidden_items() {
        let shape = LineShape { items: 1_000 };
        let (callers, after) = (
            LineCallers::for_shape(shape, LineQuestion::OneQueue),
            LineCallers::for_shape(shape, LineQuestion::AfterTheHead),
        );
        assert_eq!(callers.check_item(0, &sample_entry("i-5", &["s0", "s7", "s14"])).unwrap(), 5);
        let says = |callers: &LineCallers, person, item: &LineEntry, words: &str| {
            let said = callers.check_item(person, item).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        };
        says(&callers, 0, &sample_entry("i-5", &["s0", "s7", "s1"]), "skills");
        says(&callers, 0, &sample_entry("i-1001", &[]), "not in the line");
        says(&callers, 0, &sample_entry("other", &[]), "not in the line");
        assert!(callers.check_item(17, &sample_entry("i-10", &["s1"])).is_ok());
        says(&after, 17, &sample_entry("i-10", &["s1"]), "may not have");
    }

    #[test]
    fn busy_person_makes_no_request() {
        let callers = LineCallers::for_shape(LineShape { items: 1_000 }, LineQuestion::AfterTheHead);
        let taken: Vec<usize> = (0..5).map(|_| callers.take_free(6).unwrap()).collect();
        assert_eq!(taken, [35, 53, 71, 89, 17]);
        assert!(callers.take_free(0).is_err());
    }
}
