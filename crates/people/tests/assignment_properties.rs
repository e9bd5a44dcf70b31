//! Invariants of items under random inputs of several persons and operators.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_model::id::{AssignmentId, ItemId, Name, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::item_log::ItemOutline;
use millstream_people::assignment::queue::{EligiblePersons, EscalationTarget, QueueConfig};
use millstream_people::assignment::select::OpeningChange;
use millstream_people::assignment::stats::{self, AssignmentCounter, AssignmentStats, AssignmentTotals};
use millstream_people::assignment::{
    AssignmentStatus, ItemAggregate, ItemAssignment, ItemChange, ItemInput, ItemLogEntry, ItemQueueContext,
    ItemStepOutcome, NewQueueItem, QueueItem, QueueState, step_item,
};
use proptest::prelude::*;
use uuid::Uuid;

const PEOPLE: [&str; 5] = ["ann", "bob", "cem", "dee", "eve"];

fn person(at: u64) -> PersonId {
    PersonId::parse(PEOPLE[usize::try_from(at % 5).unwrap()]).unwrap()
}

/// SplitMix64.
struct ItemDice(u64);

impl ItemDice {
    fn of(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

struct ItemWorld {
    queues: BTreeMap<Name, QueueConfig>,
    state: QueueState,
    work: ItemAggregate,
    log: Vec<ItemLogEntry>,
    totals: AssignmentTotals,
    now: Timestamp,
    ids: u128,
}

impl ItemWorld {
    fn new(dice: &mut ItemDice) -> Self {
        let name = |text: &str| Name::parse(text).unwrap();
        let mut first = config(dice, name("first"));
        let second = config(dice, name("second"));
        if dice.of(3) == 0 {
            first.escalate = Some(EscalationTarget::Queue(name("second")));
        }
        let now = Timestamp::from_millis(1_000_000);
        let new = NewQueueItem::with_defaults(ItemId::parse("i").unwrap(), RawJson::parse("{}").unwrap());
        assert_eq!(new.find_problems(&first), []);
        let item = QueueItem::from_import(&new, &first, now);
        let log = vec![ItemLogEntry::of_import(&item)];
        let queues = [first, second].into_iter().map(|queue| (queue.name.clone(), queue)).collect();
        let work = ItemAggregate::new(item, new.payload);
        Self { queues, state: QueueState::Active, work, log, totals: stats::totals_of_import(1), now, ids: 0 }
    }

    fn queue(&self) -> &QueueConfig {
        &self.queues[&self.work.item.queue]
    }

    fn id(&mut self) -> AssignmentId {
        self.ids += 1;
        AssignmentId(Uuid::from_u128(self.ids))
    }

    fn input(&mut self, dice: &mut ItemDice) -> ItemInput {
        let ids: Vec<AssignmentId> = self.work.assignments.keys().copied().collect();
        let next = self.id();
        let assignment = match ids.len() {
            0 => next,
            count => ids[usize::try_from(dice.of(count as u64)).unwrap()],
        };
        let owner = self.work.assignments.get(&assignment).map(|one| one.person.clone());
        let person = match owner {
            Some(owner) if dice.of(10) > 0 => owner,
            Some(_) | None => person(dice.of(5)),
        };
        let to = (dice.of(2) == 0).then(|| self::person(dice.of(5)));
        match dice.of(24) {
            0..=5 => ItemInput::Assign { person: self::person(dice.of(5)), next },
            6..=9 => ItemInput::Start { assignment, person },
            10..=13 => {
                let answer = RawJson::parse(["1", "2", "{}"][usize::try_from(dice.of(3)).unwrap()]).unwrap();
                ItemInput::Submit { assignment, person, answer }
            }
            14..=15 => ItemInput::Skip { assignment, person, reason: Some("no".to_owned()) },
            16 => ItemInput::Heartbeat { assignment, person },
            17..=19 => ItemInput::Expire { assignment, next },
            20 => ItemInput::Revoke { assignment, to, next, by: None },
            21 => ItemInput::Reassign { assignment, to, next, by: None },
            22 => ItemInput::Correct { assignment, person: to, next, by: None },
            _ => match dice.of(6) {
                0 => ItemInput::Withdraw { reason: None, by: None },
                1 => ItemInput::Overdue,
                _ => ItemInput::Expire { assignment, next },
            },
        }
    }

    fn take(&mut self, input: &ItemInput) {
        let queue = self.queue().clone();
        let target = match &queue.escalate {
            Some(EscalationTarget::Queue(name)) => self.queues.get(name).cloned(),
            Some(EscalationTarget::Event(_)) | None => None,
        };
        let setting = ItemQueueContext { queue: &queue, state: self.state, escalates_to: target.as_ref() };
        let before = self.work.clone();
        match step_item(&before, setting, input, self.now) {
            Ok(ItemStepOutcome::Changed(change)) => self.changed(&before, *change),
            Ok(ItemStepOutcome::Repeated) | Err(_) => {}
        }
    }

    fn changed(&mut self, before: &ItemAggregate, change: ItemChange) {
        for totals in stats::totals_added(before, &change).values() {
            self.totals.merge(totals);
        }
        for (id, one) in &before.assignments {
            let after = &change.work.assignments[id];
            if one.status == AssignmentStatus::Completed {
                assert_eq!(one, after, "completed never changes");
            }
            assert!(one == after || change.changed.contains(id), "a change that is not reported: {after:?}");
        }
        let open = change.work.opening_count() > 0;
        assert_eq!(
            open,
            matches!(change.opening.change, OpeningChange::Place | OpeningChange::Update),
            "{:?}",
            change.opening
        );
        assert_eq!(
            change.told.is_some(),
            change.work.item.status.is_ended() && !before.item.status.is_ended()
        );
        self.log.extend(change.log);
        self.work = change.work;
        self.check();
    }

    fn check(&self) {
        let (work, queue) = (&self.work, self.queue());
        let places: Vec<&ItemAssignment> =
            work.assignments.values().filter(|one| one.refers_to.is_none()).collect();
        let overlap = usize::try_from(work.item.overlap).unwrap();
        assert!(
            work.completed_count() + work.open_count() <= overlap.max(work.completed_count()),
            "more than it needs: {work:?}"
        );
        if !work.item.status.is_ended() {
            assert!(work.completed_count() < overlap);
        }
        assert!(work.attempt_count() <= usize::try_from(queue.max_attempts_total).unwrap());
        for who in PEOPLE.map(|who| PersonId::parse(who).unwrap()) {
            assert!(work.attempts_of(&who) <= queue.max_attempts_per_person);
            let mut theirs: Vec<_> = places.iter().filter(|one| one.person == who).collect();
            theirs.sort_by_key(|one| one.id);
            assert!(
                theirs.iter().filter(|one| one.status.is_open()).count() <= 1,
                "two open assignments of one person"
            );
            for pair in theirs.windows(2) {
                let over = matches!(pair[0].status, AssignmentStatus::Completed | AssignmentStatus::Skipped);
                assert!(!over, "assigned again after completion: {pair:?}");
            }
        }
        for one in work.assignments.values() {
            let timed = one.deadline.is_some();
            match one.status {
                AssignmentStatus::Pending => {
                    assert_eq!(timed, self.queues[&one.queue].pre_assignment_timeout.is_some())
                }
                AssignmentStatus::InProgress => assert!(timed),
                AssignmentStatus::Completed | AssignmentStatus::Expired | AssignmentStatus::Skipped => {
                    assert!(!timed)
                }
            }
        }
        let kept = places.iter().filter(|one| one.has_slot() && !one.status.is_open());
        let waits_for_operator = kept.filter(|one| one.status != AssignmentStatus::Completed).count() > 0;
        let moves = work.opening_count() > 0 || work.open_count() > 0 || waits_for_operator;
        assert_eq!(moves, !work.item.status.is_ended(), "stuck, or changed after its end: {work:?}");
        if work.opening_count() > 0 && !work.assignments.values().any(|one| one.status.is_open()) {
            let somebody = match &queue.people {
                EligiblePersons::Anyone => true,
                EligiblePersons::Listed(people) => people.iter().any(|person| !work.is_barred(person, queue)),
            };
            assert!(somebody, "an opening without an eligible person");
        }
        let told = ItemOutline::replay_log(&work.item.id, &self.log).expect("a log without gaps");
        assert_eq!(told, ItemOutline::from_rows(work), "the log does not replay to the rows");
        self.check_totals();
    }

    fn check_totals(&self) {
        let report = AssignmentStats::from_totals(&self.totals);
        for status in AssignmentStatus::ALL {
            let count = self.work.assignments.values().filter(|one| one.status == *status).count();
            assert_eq!(report.by_status[status.as_str()], i64::try_from(count).unwrap(), "{status}");
        }
        let ended = i64::from(self.work.item.status.is_ended());
        assert_eq!(report.items["open"], 1 - ended);
        assert_eq!(
            self.totals.get(AssignmentCounter::Created),
            i64::try_from(self.work.assignments.len()).unwrap()
        );
    }
}

fn config(dice: &mut ItemDice, name: Name) -> QueueConfig {
    let mut queue = QueueConfig::with_defaults(name);
    queue.overlap = 1 + u32::try_from(dice.of(3)).unwrap();
    queue.max_attempts_total = queue.overlap + u32::try_from(dice.of(5)).unwrap();
    queue.max_attempts_per_person = 1 + u32::try_from(dice.of(3)).unwrap();
    queue.reassign_expired = dice.of(4) > 0;
    queue.reassign_skipped = dice.of(4) > 0;
    queue.due = (dice.of(2) == 0).then(|| Duration::from_secs(7200));
    if dice.of(4) == 0 {
        queue.pre_assignment_timeout = None;
    }
    if dice.of(3) == 0 {
        let people: BTreeSet<PersonId> = (0..3 + dice.of(2)).map(person).collect();
        queue.people = EligiblePersons::Listed(people);
    }
    if dice.of(4) == 0 {
        queue.escalate = Some(EscalationTarget::Event(Name::parse("late").unwrap()));
    }
    queue
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn item_invariants_hold_under_random_inputs(seed in any::<u64>()) {
        let mut dice = ItemDice(seed);
        let mut world = ItemWorld::new(&mut dice);
        for _ in 0..60 {
            world.now = world.now.plus(Duration::from_secs([1, 60, 600, 4000][usize::try_from(dice.of(4)).unwrap()]));
            if dice.of(20) == 0 {
                world.state = if dice.of(2) == 0 { QueueState::Paused } else { QueueState::Active };
            }
            let input = world.input(&mut dice);
            world.take(&input);
        }
    }

    /// From any state, persons who work and time that passes bring every item to its end.
    #[test]
    fn every_item_ends_eventually(seed in any::<u64>(), lazy in any::<bool>()) {
        let mut dice = ItemDice(seed);
        let mut world = ItemWorld::new(&mut dice);
        for queue in world.queues.values_mut() {
            (queue.reassign_expired, queue.reassign_skipped) = (true, true);
            queue.pre_assignment_timeout = Some(Duration::from_secs(60));
        }
        for _ in 0..dice.of(30) {
            let input = world.input(&mut dice);
            world.now = world.now.plus(Duration::from_secs(100));
            world.take(&input);
        }
        world.state = QueueState::Active;
        for round in 0..400u64 {
            if world.work.item.status.is_ended() {
                break;
            }
            world.now = world.now.plus(Duration::from_secs(4000));
            let open: Vec<ItemAssignment> =
                world.work.assignments.values().filter(|one| one.status.is_open()).cloned().collect();
            for one in open {
                let next = world.id();
                let (assignment, person) = (one.id, one.person);
                let input = if lazy {
                    ItemInput::Expire { assignment, next }
                } else if one.status == AssignmentStatus::Pending {
                    ItemInput::Start { assignment, person }
                } else {
                    ItemInput::Submit { assignment, person, answer: RawJson::null() }
                };
                world.take(&input);
            }
            let next = world.id();
            // More persons than the item has had so far.
            let newcomer = PersonId::parse(format!("new-{round}")).unwrap();
            let person = match world.queue().people {
                EligiblePersons::Anyone => newcomer,
                EligiblePersons::Listed(_) => self::person(round),
            };
            world.take(&ItemInput::Assign { person, next });
        }
        prop_assert!(world.work.item.status.is_ended(), "{:?}", world.work);
    }
}
