//! Handing out assignments, in memory: caller by caller, over all openings.

use std::collections::BTreeMap;

use millstream_model::id::{ItemId, ItemKey, Name};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::{
    AskingPerson, OpeningCandidate, OpeningClass, PersonIdleReason, PersonLoad, PersonProfile, QueuePosition,
    select_openings,
};
use millstream_people::assignment::{AssignmentStatus, stats};
use millstream_store::StoreResult;
use millstream_store::assignments::{
    AssignedWork, AssignmentCaller, Assignments, NextAssignment, OverdueItem,
};
use millstream_store::opening_selection;
use millstream_store::queue_store::QueueView;

use crate::MemoryStore;
use crate::people::PeopleTables;

#[async_trait::async_trait]
impl Assignments for MemoryStore {
    async fn assign_next(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> StoreResult<Vec<NextAssignment>> {
        let mut tables = self.lock_tables();
        Ok(callers.iter().map(|caller| assign_next(&mut tables.people, caller, now)).collect())
    }

    async fn list_overdue(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<OverdueItem>> {
        let tables = self.lock_tables();
        let mut due = Vec::new();
        for (key, row) in &tables.people.items {
            let item = row.work.item.due_at.map(|at| (None, at));
            let assignments =
                row.work.assignments.values().filter_map(|one| Some((Some(one.id), one.deadline?)));
            let over = item.into_iter().chain(assignments).filter(|(_, at)| *at <= now);
            due.extend(over.map(|(assignment, at)| OverdueItem { item: key.clone(), assignment, at }));
        }
        due.sort_by(|a, b| (a.at, &a.item, a.assignment).cmp(&(b.at, &b.item, b.assignment)));
        due.truncate(limit);
        Ok(due)
    }
}

fn assign_next(people: &mut PeopleTables, caller: &AssignmentCaller, now: Timestamp) -> NextAssignment {
    if let Some(given) = pending_assignment(people, caller) {
        return given;
    }
    let unknown = || PersonProfile::unknown(caller.person.clone());
    let profile = people.people.get(&(caller.tenant.clone(), caller.person.clone()));
    let profile = profile.cloned().unwrap_or_else(unknown);
    let queues: Vec<&QueueView> = people
        .queues
        .iter()
        .filter(|((tenant, name), _)| {
            *tenant == caller.tenant && opening_selection::requests_queue(caller, name)
        })
        .map(|(_, view)| view)
        .collect();
    let asking =
        match opening_selection::eligible_queues(caller, &profile, &queues, &person_loads(people, caller)) {
            Ok(asking) => asking,
            Err(idle) => return NextAssignment::Nothing(idle),
        };
    let (keys, candidates): (Vec<ItemKey>, Vec<OpeningCandidate>) =
        find_candidates(people, caller, &asking).into_iter().unzip();
    let found = select_openings(&[asking], &candidates).into_iter().next().flatten();
    let Some(key) = found.and_then(|at| keys.get(at)) else {
        return NextAssignment::Nothing(PersonIdleReason::NothingOpen);
    };
    let given = assign_opening(people, key, caller, now);
    given.map_or(NextAssignment::Nothing(PersonIdleReason::NothingOpen), |given| {
        NextAssignment::Assigned(Box::new(given))
    })
}

fn assign_opening(
    people: &mut PeopleTables,
    key: &ItemKey,
    caller: &AssignmentCaller,
    now: Timestamp,
) -> Option<AssignedWork> {
    let loaded = people.load_item(key)?;
    let queue = people.queues.get(&(key.tenant.clone(), loaded.work.item.queue.clone()))?;
    let commit = opening_selection::assign_opening(&loaded, queue, caller, now)?;
    people.write_commit(&commit, now).ok()?;
    let work = commit.change.work;
    let assignment = work.assignments.get(&caller.next)?.clone();
    Some(AssignedWork { assignment, item: work.item, payload: work.payload, already_assigned: false })
}

/// The caller's oldest assignment that has not begun.
fn pending_assignment(people: &PeopleTables, caller: &AssignmentCaller) -> Option<NextAssignment> {
    let theirs = people.open.get(&(caller.tenant.clone(), caller.person.clone()))?;
    let rows = theirs.iter().filter_map(|(id, key)| {
        let row = people.items.get(key)?;
        Some((row.work.assignments.get(id)?, row))
    });
    let (one, row) = rows
        .filter(|(one, _)| {
            one.status == AssignmentStatus::Pending && opening_selection::requests_queue(caller, &one.queue)
        })
        .min_by_key(|(one, _)| (one.created_at, one.id))?;
    Some(NextAssignment::Assigned(Box::new(AssignedWork {
        assignment: one.clone(),
        item: row.work.item.clone(),
        payload: row.work.payload.clone(),
        already_assigned: true,
    })))
}

fn person_loads(people: &PeopleTables, caller: &AssignmentCaller) -> BTreeMap<Name, PersonLoad> {
    let mut loads: BTreeMap<Name, PersonLoad> = BTreeMap::new();
    let theirs = people.open.get(&(caller.tenant.clone(), caller.person.clone()));
    for (id, key) in theirs.into_iter().flatten() {
        if let Some(one) = people.items.get(key).and_then(|row| row.work.assignments.get(id)) {
            loads.entry(one.queue.clone()).or_default().open += 1;
        }
    }
    for ((tenant, queue, person, _), totals) in &people.totals {
        if *tenant == caller.tenant && person.as_ref() == Some(&caller.person) {
            let completed = u64::try_from(totals.get(stats::AssignmentCounter::Completed)).unwrap_or(0);
            loads.entry(queue.clone()).or_default().completed += completed;
        }
    }
    loads
}

/// The first suitable opening of each queue.
fn find_candidates(
    people: &PeopleTables,
    caller: &AssignmentCaller,
    asking: &AskingPerson,
) -> Vec<(ItemKey, OpeningCandidate)> {
    let first = |queue: &Name| {
        let config = &people.queues.get(&(caller.tenant.clone(), queue.clone()))?.config;
        let from = QueuePosition { urgency: i32::MIN, class: OpeningClass::Reopened, position: i64::MIN };
        let least = ItemId::parse("-").ok()?;
        let key = ItemKey { tenant: caller.tenant.clone(), item: least };
        let line = people.openings.range((caller.tenant.clone(), queue.clone(), from, key)..);
        let line = line.take_while(|(tenant, name, _, _)| *tenant == caller.tenant && name == queue);
        line.filter_map(|(_, _, standing, key)| {
            let work = &people.items.get(key)?.work;
            let candidate = OpeningCandidate {
                queue: queue.clone(),
                skills: work.item.skills.clone(),
                needs: work.opening_count(),
                barred: work.barred_persons(config),
                standing: *standing,
            };
            candidate.suits_person(asking).then(|| (key.clone(), candidate))
        })
        .next()
    };
    asking.queues.iter().filter_map(first).collect()
}
