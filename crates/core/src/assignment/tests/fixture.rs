//! The fixture: an item in a queue, with a one-line method for every input.

use std::time::Duration;

use uuid::Uuid;

use crate::assignment::input::InputKind;
use crate::assignment::{
    Assignment, AssignmentStatus, Change, Input, Item, LogEntry, NewItem, QueueConfig, QueueState, Refusal,
    Setting, Stepped, Work, step,
};
use crate::definition::Format;
use crate::id::{AssignmentId, ItemId, Name, PersonId};
use crate::raw::RawJson;
use crate::time::Timestamp;

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

pub(super) fn raw(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(super) fn person(text: &str) -> PersonId {
    PersonId::parse(text).unwrap()
}

pub(super) fn id(number: u128) -> AssignmentId {
    AssignmentId(Uuid::from_u128(number))
}

/// A queue named `q` with the given settings.
pub(super) fn queue(rest: &str) -> QueueConfig {
    QueueConfig::parse(&format!("{{name: q, {rest}}}"), Format::Yaml).unwrap()
}

/// An item and its queue; the clock advances by one second per step.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) queue: QueueConfig,
    pub(super) state: QueueState,
    pub(super) seniors: Option<QueueConfig>,
    pub(super) work: Work,
    pub(super) now: Timestamp,
    pub(super) log: Vec<LogEntry>,
    pub(super) last: u128,
}

impl Desk {
    pub(super) fn new(rest: &str) -> Self {
        Self::with(queue(rest), NewItem::plain(ItemId::parse("i-1").unwrap(), raw(r#"{"text":"hello"}"#)))
    }

    pub(super) fn with(queue: QueueConfig, new: NewItem) -> Self {
        assert_eq!(new.problems(&queue), []);
        let item = Item::imported(&new, &queue, NOW);
        let log = vec![LogEntry::imported(&item)];
        let work = Work::new(item, new.payload);
        Self { queue, state: QueueState::Active, seniors: None, work, now: NOW, log, last: 0 }
    }

    pub(super) fn next_id(&mut self) -> AssignmentId {
        self.last += 1;
        id(self.last)
    }

    pub(super) fn try_step(&mut self, input: &Input) -> Result<Stepped, Refusal> {
        let own = self.work.item.queue == self.queue.name;
        let queue = if own { &self.queue } else { self.seniors.as_ref().unwrap() };
        let setting = Setting { queue, state: self.state, escalates_to: self.seniors.as_ref() };
        self.now = self.now.plus(Duration::from_secs(1));
        let stepped = step(&self.work, setting, input, self.now)?;
        if let Stepped::Changed(change) = &stepped {
            self.work = change.work.clone();
            self.log.extend(change.log.iter().cloned());
        }
        Ok(stepped)
    }

    pub(super) fn act(&mut self, input: &Input) -> Change {
        match self.try_step(input) {
            Ok(Stepped::Changed(change)) => *change,
            other => panic!("{input:?}: {other:?}"),
        }
    }

    pub(super) fn refused(&mut self, input: &Input) -> Refusal {
        let before = self.work.clone();
        let refusal = self.try_step(input).unwrap_err();
        assert_eq!(before, self.work);
        refusal
    }

    pub(super) fn assign(&mut self, who: &str) -> AssignmentId {
        let next = self.next_id();
        self.act(&Input::Assign { person: person(who), next });
        next
    }

    pub(super) fn start(&mut self, id: AssignmentId) -> Change {
        let person = self.one(id).person.clone();
        self.act(&Input::Start { assignment: id, person })
    }

    /// Assigned and started.
    pub(super) fn working(&mut self, who: &str) -> AssignmentId {
        let id = self.assign(who);
        self.start(id);
        id
    }

    pub(super) fn submit(&mut self, id: AssignmentId, answer: &str) -> Change {
        let person = self.one(id).person.clone();
        self.act(&Input::Submit { assignment: id, person, answer: raw(answer) })
    }

    pub(super) fn skip(&mut self, id: AssignmentId) -> Change {
        let person = self.one(id).person.clone();
        self.act(&Input::Skip { assignment: id, person, reason: None })
    }

    /// Expires the assignment at its deadline.
    pub(super) fn expire(&mut self, id: AssignmentId) -> Change {
        let next = self.next_id();
        self.now = self.one(id).deadline.unwrap();
        self.act(&Input::Expire { assignment: id, next })
    }

    pub(super) fn one(&self, id: AssignmentId) -> &Assignment {
        &self.work.assignments[&id]
    }

    pub(super) fn status(&self, id: AssignmentId) -> AssignmentStatus {
        self.one(id).status
    }

    /// The only open assignment.
    pub(super) fn open(&self) -> &Assignment {
        let mut open = self.work.assignments.values().filter(|one| one.status.is_open());
        let one = open.next().unwrap();
        assert_eq!(open.next(), None);
        one
    }

    /// An input of this kind about an assignment, by its own person and in time.
    pub(super) fn input(&mut self, kind: InputKind, assignment: AssignmentId) -> Input {
        let person = self.work.assignments.get(&assignment).map_or(person("ann"), |one| one.person.clone());
        let next = self.next_id();
        match kind {
            InputKind::Assign => Input::Assign { person: self::person("zoe"), next },
            InputKind::Start => Input::Start { assignment, person },
            InputKind::Submit => Input::Submit { assignment, person, answer: raw("1") },
            InputKind::Skip => Input::Skip { assignment, person, reason: None },
            InputKind::Heartbeat => Input::Heartbeat { assignment, person },
            InputKind::Expire => Input::Expire { assignment, next },
            InputKind::Revoke => Input::Revoke { assignment, to: None, next, by: None },
            InputKind::Reassign => Input::Reassign { assignment, to: None, next, by: None },
            InputKind::Correct => Input::Correct { assignment, person: None, next, by: None },
            InputKind::Withdraw => Input::Withdraw { reason: None, by: None },
            InputKind::Overdue => Input::Overdue,
        }
    }
}
