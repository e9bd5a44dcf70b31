//! People who ask for the next item on a schedule. Their items are started and submitted after the clock has
//! stopped, so that each next request gets a different item.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde::Deserialize;

use super::shape::Shape;
use crate::error::{BenchError, Result};
use crate::generator::{Answered, Errand, Lane};
use crate::lists::read;

/// Queues that a request covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// One queue, rotating over all queues.
    OneQueue,
    /// All ten queues.
    AllQueues,
    /// One queue, by people who are barred from its head because they already had those items.
    AfterTheHead,
}

#[derive(Debug)]
pub(crate) struct Callers {
    shape: Shape,
    asking: Asking,
    /// The people who ask, in rotation.
    people: Vec<usize>,
    /// People with an item that is not submitted yet.
    busy: RefCell<BTreeSet<usize>>,
    /// (item, person).
    pub(crate) given: RefCell<Vec<(usize, usize)>>,
    pub(crate) nothing: Cell<usize>,
}

#[derive(Debug, Deserialize)]
struct Given {
    assignment: Option<Assigned>,
    item: Option<Asked>,
    #[serde(default)]
    again: bool,
}

#[derive(Debug, Deserialize)]
struct Assigned {
    assignment_id: String,
}

#[derive(Debug, Deserialize)]
struct Asked {
    item_id: String,
    skills: BTreeSet<String>,
}

impl Asking {
    pub(crate) const ALL: [Self; 3] = [Self::OneQueue, Self::AllQueues, Self::AfterTheHead];

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::OneQueue => "next in one queue",
            Self::AllQueues => "next in ten queues",
            Self::AfterTheHead => "next after the head of the line",
        }
    }
}

impl Callers {
    pub(crate) fn of(shape: Shape, asking: Asking) -> Self {
        let people = match asking {
            Asking::OneQueue | Asking::AllQueues => Shape::people().collect(),
            Asking::AfterTheHead => Shape::all_rounders(),
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
    fn take_free(&self, number: usize) -> Result<usize> {
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

    fn wish(&self, number: usize, person: usize) -> String {
        let person = Shape::person(person);
        match self.asking {
            Asking::AllQueues => format!("{{\"person\":\"{person}\"}}"),
            // The turns of a person come at even distances: without the quotient each would always use the
            // same queue.
            Asking::OneQueue | Asking::AfterTheHead => {
                let queue = Shape::queue(number + number / self.people.len());
                format!("{{\"person\":\"{person}\",\"queues\":[\"{queue}\"]}}")
            }
        }
    }

    /// The number of the item, if this person may have it.
    fn check(&self, person: usize, item: &Asked) -> Result<usize> {
        let wrong = |why: &str| {
            Err(BenchError::Wrong(format!("{} was given {}, {why}", Shape::person(person), item.item_id)))
        };
        let number = item.item_id.strip_prefix("i-").and_then(|text| text.parse::<usize>().ok());
        let Some(number) = number.filter(|number| (1..=self.shape.items).contains(number)) else {
            return wrong("which is not in the line");
        };
        if !item.skills.is_subset(&Shape::skills(person)) {
            return wrong("which asks for skills that they do not have");
        }
        if self.asking == Asking::AfterTheHead && number <= self.shape.head() {
            return wrong("which they may not have");
        }
        Ok(number)
    }
}

impl Errand for Callers {
    async fn run(&self, lane: &mut Lane, number: usize) -> Result<Answered> {
        let person = self.take_free(number)?;
        let wish = self.wish(number, person);
        let (connection, buffer) = (&mut lane.connection, &mut lane.request);
        let called = connection.call(buffer, "/v1/assignments/next", wish.as_bytes(), &[200]).await?;
        let given: Given = read("next", &called.body)?;
        if let (Some(assigned), Some(item)) = (given.assignment, given.item) {
            if given.again {
                let text =
                    format!("{} has nothing and is given {} again", Shape::person(person), item.item_id);
                return Err(BenchError::Wrong(text));
            }
            let item = self.check(person, &item)?;
            self.given.borrow_mut().push((item, person));
            let path = format!("/v1/assignments/{}", assigned.assignment_id);
            let person = Shape::person(person);
            let who = format!("{{\"person\":\"{person}\"}}");
            connection.call(buffer, &format!("{path}/start"), who.as_bytes(), &[200]).await?;
            let answer = format!("{{\"person\":\"{person}\",\"answer\":{{\"n\":1}}}}");
            connection.call(buffer, &format!("{path}/submit"), answer.as_bytes(), &[200]).await?;
        } else {
            self.nothing.set(self.nothing.get() + 1);
        }
        self.busy.borrow_mut().remove(&person);
        Ok(Answered { at: called.at, pushed_back: called.pushed_back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, skills: &[&str]) -> Asked {
        Asked { item_id: id.to_owned(), skills: skills.iter().map(|skill| (*skill).to_owned()).collect() }
    }

    #[test]
    fn nobody_is_given_what_they_cannot_or_may_not_do() {
        let shape = Shape { items: 1_000 };
        let (callers, after) =
            (Callers::of(shape, Asking::OneQueue), Callers::of(shape, Asking::AfterTheHead));
        assert_eq!(callers.check(0, &asked("i-5", &["s0", "s7", "s14"])).unwrap(), 5);
        let says = |callers: &Callers, person, item: &Asked, words: &str| {
            let said = callers.check(person, item).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        };
        says(&callers, 0, &asked("i-5", &["s0", "s7", "s1"]), "skills");
        says(&callers, 0, &asked("i-1001", &[]), "not in the line");
        says(&callers, 0, &asked("other", &[]), "not in the line");
        assert!(callers.check(17, &asked("i-10", &["s1"])).is_ok());
        says(&after, 17, &asked("i-10", &["s1"]), "may not have");
    }

    #[test]
    fn who_is_busy_is_not_asked_to_ask() {
        let callers = Callers::of(Shape { items: 1_000 }, Asking::AfterTheHead);
        let taken: Vec<usize> = (0..5).map(|_| callers.take_free(6).unwrap()).collect();
        assert_eq!(taken, [35, 53, 71, 89, 17]);
        assert!(callers.take_free(0).is_err());
    }
}
