//! The fixture: an item in a queue, with a one-line method for every input.

use std::time::Duration;

use millstream_model::document::SourceFormat;
use millstream_model::id::{AssignmentId, ItemId, Name, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use uuid::Uuid;

use crate::assignment::input::ItemInputKind;
use crate::assignment::{
    AssignmentStatus, ItemAggregate, ItemAssignment, ItemChange, ItemInput, ItemLogEntry, ItemQueueContext,
    ItemRefusal, ItemStepOutcome, NewQueueItem, QueueConfig, QueueItem, QueueState, step_item,
};

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
    QueueConfig::parse(&format!("{{name: q, {rest}}}"), SourceFormat::Yaml).unwrap()
}

/// An item and its queue; the clock advances by one second per step.
#[derive(Debug, Clone)]
pub(super) struct ItemFixture {
    pub(super) queue: QueueConfig,
    pub(super) state: QueueState,
    pub(super) seniors: Option<QueueConfig>,
    pub(super) work: ItemAggregate,
    pub(super) now: Timestamp,
    pub(super) log: Vec<ItemLogEntry>,
    pub(super) last: u128,
}

impl ItemFixture {
    pub(super) fn new(rest: &str) -> Self {
        Self::with(
            queue(rest),
            NewQueueItem::with_defaults(ItemId::parse("i-1").unwrap(), raw(r#"{"text":"hello"}"#)),
        )
    }

    pub(super) fn with(queue: QueueConfig, new: NewQueueItem) -> Self {
        assert_eq!(new.find_problems(&queue), []);
        let item = QueueItem::from_import(&new, &queue, NOW);
        let log = vec![ItemLogEntry::of_import(&item)];
        let work = ItemAggregate::new(item, new.payload);
        Self { queue, state: QueueState::Active, seniors: None, work, now: NOW, log, last: 0 }
    }

    pub(super) fn next_id(&mut self) -> AssignmentId {
        self.last += 1;
        id(self.last)
    }

    pub(super) fn try_step(&mut self, input: &ItemInput) -> Result<ItemStepOutcome, ItemRefusal> {
        let own = self.work.item.queue == self.queue.name;
        let queue = if own { &self.queue } else { self.seniors.as_ref().unwrap() };
        let setting = ItemQueueContext { queue, state: self.state, escalates_to: self.seniors.as_ref() };
        self.now = self.now.plus(Duration::from_secs(1));
        let stepped = step_item(&self.work, setting, input, self.now)?;
        if let ItemStepOutcome::Changed(change) = &stepped {
            self.work = change.work.clone();
            self.log.extend(change.log.iter().cloned());
        }
        Ok(stepped)
    }

    pub(super) fn act(&mut self, input: &ItemInput) -> ItemChange {
        match self.try_step(input) {
            Ok(ItemStepOutcome::Changed(change)) => *change,
            other => panic!("{input:?}: {other:?}"),
        }
    }

    pub(super) fn refused(&mut self, input: &ItemInput) -> ItemRefusal {
        let before = self.work.clone();
        let refusal = self.try_step(input).unwrap_err();
        assert_eq!(before, self.work);
        refusal
    }

    pub(super) fn assign(&mut self, who: &str) -> AssignmentId {
        let next = self.next_id();
        self.act(&ItemInput::Assign { person: person(who), next });
        next
    }

    pub(super) fn start(&mut self, id: AssignmentId) -> ItemChange {
        let person = self.one(id).person.clone();
        self.act(&ItemInput::Start { assignment: id, person })
    }

    /// Assigned and started.
    pub(super) fn working(&mut self, who: &str) -> AssignmentId {
        let id = self.assign(who);
        self.start(id);
        id
    }

    pub(super) fn submit(&mut self, id: AssignmentId, answer: &str) -> ItemChange {
        let person = self.one(id).person.clone();
        self.act(&ItemInput::Submit { assignment: id, person, answer: raw(answer) })
    }

    pub(super) fn skip(&mut self, id: AssignmentId) -> ItemChange {
        let person = self.one(id).person.clone();
        self.act(&ItemInput::Skip { assignment: id, person, reason: None })
    }

    /// Expires the assignment at its deadline.
    pub(super) fn expire(&mut self, id: AssignmentId) -> ItemChange {
        let next = self.next_id();
        self.now = self.one(id).deadline.unwrap();
        self.act(&ItemInput::Expire { assignment: id, next })
    }

    pub(super) fn one(&self, id: AssignmentId) -> &ItemAssignment {
        &self.work.assignments[&id]
    }

    pub(super) fn status(&self, id: AssignmentId) -> AssignmentStatus {
        self.one(id).status
    }

    /// The only open assignment.
    pub(super) fn open(&self) -> &ItemAssignment {
        let mut open = self.work.assignments.values().filter(|one| one.status.is_open());
        let one = open.next().unwrap();
        assert_eq!(open.next(), None);
        one
    }

    /// An input of this kind about an assignment, by its own person and in time.
    pub(super) fn input(&mut self, kind: ItemInputKind, assignment: AssignmentId) -> ItemInput {
        let person = self.work.assignments.get(&assignment).map_or(person("ann"), |one| one.person.clone());
        let next = self.next_id();
        match kind {
            ItemInputKind::Assign => ItemInput::Assign { person: self::person("zoe"), next },
            ItemInputKind::Start => ItemInput::Start { assignment, person },
            ItemInputKind::Submit => ItemInput::Submit { assignment, person, answer: raw("1") },
            ItemInputKind::Skip => ItemInput::Skip { assignment, person, reason: None },
            ItemInputKind::Heartbeat => ItemInput::Heartbeat { assignment, person },
            ItemInputKind::Expire => ItemInput::Expire { assignment, next },
            ItemInputKind::Revoke => ItemInput::Revoke { assignment, to: None, next, by: None },
            ItemInputKind::Reassign => ItemInput::Reassign { assignment, to: None, next, by: None },
            ItemInputKind::Correct => ItemInput::Correct { assignment, person: None, next, by: None },
            ItemInputKind::Withdraw => ItemInput::Withdraw { reason: None, by: None },
            ItemInputKind::Overdue => ItemInput::Overdue,
        }
    }
}
