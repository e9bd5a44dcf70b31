//! Handing out assignments, in memory: caller by caller, over all openings.

use std::collections::BTreeMap;

use millstream_core::assignment::next::{Asking, Candidate, Class, Idle, Load, Profile, Standing, hand_out};
use millstream_core::assignment::{AssignmentStatus, stats};
use millstream_core::id::{ItemId, ItemKey, Name};
use millstream_core::time::Timestamp;

use super::Memory;
use super::people::PeopleTables;
use crate::Result;
use crate::assignments::{Assignments, Caller, Due, Given, GivenWork};
use crate::giving;
use crate::queue_store::QueueView;

#[async_trait::async_trait]
impl Assignments for Memory {
    async fn next(&self, callers: &[Caller], now: Timestamp) -> Result<Vec<Given>> {
        let mut tables = self.tables();
        Ok(callers.iter().map(|caller| next(&mut tables.people, caller, now)).collect())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>> {
        let tables = self.tables();
        let mut due = Vec::new();
        for (key, row) in &tables.people.items {
            let item = row.work.item.due_at.map(|at| (None, at));
            let assignments =
                row.work.assignments.values().filter_map(|one| Some((Some(one.id), one.deadline?)));
            let over = item.into_iter().chain(assignments).filter(|(_, at)| *at <= now);
            due.extend(over.map(|(assignment, at)| Due { item: key.clone(), assignment, at }));
        }
        due.sort_by(|a, b| (a.at, &a.item, a.assignment).cmp(&(b.at, &b.item, b.assignment)));
        due.truncate(limit);
        Ok(due)
    }
}

fn next(people: &mut PeopleTables, caller: &Caller, now: Timestamp) -> Given {
    if let Some(given) = pending(people, caller) {
        return given;
    }
    let unknown = || Profile::unknown(caller.person.clone());
    let profile = people.people.get(&(caller.tenant.clone(), caller.person.clone()));
    let profile = profile.cloned().unwrap_or_else(unknown);
    let queues: Vec<&QueueView> = people
        .queues
        .iter()
        .filter(|((tenant, name), _)| *tenant == caller.tenant && giving::wants(caller, name))
        .map(|(_, view)| view)
        .collect();
    let asking = match giving::asking(caller, &profile, &queues, &loads(people, caller)) {
        Ok(asking) => asking,
        Err(idle) => return Given::Nothing(idle),
    };
    let (keys, candidates): (Vec<ItemKey>, Vec<Candidate>) =
        candidates(people, caller, &asking).into_iter().unzip();
    let found = hand_out(&[asking], &candidates).into_iter().next().flatten();
    let Some(key) = found.and_then(|at| keys.get(at)) else { return Given::Nothing(Idle::NothingOpen) };
    let given = give(people, key, caller, now);
    given.map_or(Given::Nothing(Idle::NothingOpen), |given| Given::Assigned(Box::new(given)))
}

fn give(people: &mut PeopleTables, key: &ItemKey, caller: &Caller, now: Timestamp) -> Option<GivenWork> {
    let loaded = people.loaded(key)?;
    let queue = people.queues.get(&(key.tenant.clone(), loaded.work.item.queue.clone()))?;
    let commit = giving::give(&loaded, queue, caller, now)?;
    people.write(&commit, now).ok()?;
    let work = commit.change.work;
    let assignment = work.assignments.get(&caller.next)?.clone();
    Some(GivenWork { assignment, item: work.item, payload: work.payload, again: false })
}

/// The caller's oldest assignment that has not begun.
fn pending(people: &PeopleTables, caller: &Caller) -> Option<Given> {
    let theirs = people.open.get(&(caller.tenant.clone(), caller.person.clone()))?;
    let rows = theirs.iter().filter_map(|(id, key)| {
        let row = people.items.get(key)?;
        Some((row.work.assignments.get(id)?, row))
    });
    let (one, row) = rows
        .filter(|(one, _)| one.status == AssignmentStatus::Pending && giving::wants(caller, &one.queue))
        .min_by_key(|(one, _)| (one.created_at, one.id))?;
    Some(Given::Assigned(Box::new(GivenWork {
        assignment: one.clone(),
        item: row.work.item.clone(),
        payload: row.work.payload.clone(),
        again: true,
    })))
}

fn loads(people: &PeopleTables, caller: &Caller) -> BTreeMap<Name, Load> {
    let mut loads: BTreeMap<Name, Load> = BTreeMap::new();
    let theirs = people.open.get(&(caller.tenant.clone(), caller.person.clone()));
    for (id, key) in theirs.into_iter().flatten() {
        if let Some(one) = people.items.get(key).and_then(|row| row.work.assignments.get(id)) {
            loads.entry(one.queue.clone()).or_default().open += 1;
        }
    }
    for ((tenant, queue, person, _), totals) in &people.totals {
        if *tenant == caller.tenant && person.as_ref() == Some(&caller.person) {
            let completed = u64::try_from(totals.get(stats::Counter::Completed)).unwrap_or(0);
            loads.entry(queue.clone()).or_default().completed += completed;
        }
    }
    loads
}

/// The first suitable opening of each queue.
fn candidates(people: &PeopleTables, caller: &Caller, asking: &Asking) -> Vec<(ItemKey, Candidate)> {
    let first = |queue: &Name| {
        let config = &people.queues.get(&(caller.tenant.clone(), queue.clone()))?.config;
        let from = Standing { urgency: i32::MIN, class: Class::Reopened, position: i64::MIN };
        let least = ItemId::parse("-").ok()?;
        let key = ItemKey { tenant: caller.tenant.clone(), item: least };
        let line = people.openings.range((caller.tenant.clone(), queue.clone(), from, key)..);
        let line = line.take_while(|(tenant, name, _, _)| *tenant == caller.tenant && name == queue);
        line.filter_map(|(_, _, standing, key)| {
            let work = &people.items.get(key)?.work;
            let candidate = Candidate {
                queue: queue.clone(),
                skills: work.item.skills.clone(),
                needs: work.needs(),
                barred: work.barred(config),
                standing: *standing,
            };
            candidate.suits(asking).then(|| (key.clone(), candidate))
        })
        .next()
    };
    asking.queues.iter().filter_map(first).collect()
}
