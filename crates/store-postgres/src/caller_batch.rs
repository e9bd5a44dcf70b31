//! A batch of people who ask for work, served in one transaction: each gets the pending assignment, or an opening
//! that its group's search has found and locked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::{
    AskingPerson, OpeningCandidate, PersonIdleReason, PersonLoad, select_openings,
};
use millstream_people::assignment::{AssignmentStatus, ItemAssignment};
use millstream_store::assignments::{AssignedWork, AssignmentCaller, NextAssignment};
use millstream_store::item_store::{ItemCommit, ItemRef, LoadedItem};
use millstream_store::opening_selection;
use millstream_store::queue_store::QueueView;
use sqlx::PgConnection;

use crate::caller_facts::{CallerFacts, read_asked, read_completed};
use crate::errors::PostgresResult;
use crate::item_store::ItemQuery;
use crate::item_write;
use crate::opening_search::{self, OpeningSearch};
use crate::queue_configs::QueueConfigCache;
use crate::skill_sets::SkillSetView;
use crate::totals::{self, TotalsByPerson};

/// Tenant, queues and skills that a group of callers shares.
type CallerGroupKey<'a> = (&'a TenantId, &'a BTreeSet<Name>, &'a BTreeSet<Name>);

/// A batch of callers being served.
pub(crate) struct CallerBatch<'a> {
    callers: &'a [AssignmentCaller],
    queues: HashMap<TenantId, Vec<QueueView>>,
    /// Callers that may have something, by their place.
    asking: BTreeMap<usize, AskingPerson>,
    pending: BTreeMap<usize, ItemAssignment>,
    given: Vec<Option<NextAssignment>>,
    /// Pending writes in waves: each wave has every item at most once.
    waves: Vec<Vec<ItemCommit>>,
    /// Totals that the pending writes add to.
    sums: TotalsByPerson,
}

impl<'a> CallerBatch<'a> {
    pub(crate) async fn read_batch(
        connection: &mut PgConnection,
        configs: &QueueConfigCache,
        callers: &'a [AssignmentCaller],
        known: &[CallerFacts],
    ) -> PostgresResult<Self> {
        let mut desk = Self {
            callers,
            queues: HashMap::new(),
            asking: BTreeMap::new(),
            pending: BTreeMap::new(),
            given: vec![None; callers.len()],
            waves: Vec::new(),
            sums: TotalsByPerson::new(),
        };
        let mut fresh = Vec::new();
        for (at, (caller, known)) in callers.iter().zip(known).enumerate() {
            let pending = known.open.iter().filter(|one| one.status == AssignmentStatus::Pending);
            let wanted = pending.filter(|one| opening_selection::requests_queue(caller, &one.queue));
            match wanted.min_by_key(|one| (one.created_at, one.id)) {
                Some(one) => drop(desk.pending.insert(at, one.clone())),
                None => fresh.push((at, caller, known)),
            }
        }
        if fresh.is_empty() {
            return Ok(desk);
        }
        let asked: Vec<&AssignmentCaller> = fresh.iter().map(|(_, caller, _)| *caller).collect();
        desk.queues = read_asked(connection, configs, &asked).await?;
        let completed = read_completed(connection, &asked, &desk.queues).await?;
        for (at, caller, known) in fresh {
            let mut loads: BTreeMap<Name, PersonLoad> = BTreeMap::new();
            for one in &known.open {
                loads.entry(one.queue.clone()).or_default().open += 1;
            }
            let theirs =
                |person: &(TenantId, PersonId)| person.0 == caller.tenant && person.1 == caller.person;
            for ((_, queue), count) in completed.iter().filter(|((person, _), _)| theirs(person)) {
                loads.entry(queue.clone()).or_default().completed = *count;
            }
            let queues = desk.queues.get(&caller.tenant).into_iter().flatten();
            let queues: Vec<&QueueView> =
                queues.filter(|view| opening_selection::requests_queue(caller, &view.config.name)).collect();
            match opening_selection::eligible_queues(caller, &known.profile, &queues, &loads) {
                Ok(asking) => drop(desk.asking.insert(at, asking)),
                Err(idle) => desk.set_answer(at, Some(NextAssignment::Nothing(idle))),
            }
        }
        Ok(desk)
    }

    /// Returns pending assignments of the callers, with their items.
    pub(crate) async fn return_pending(&mut self, connection: &mut PgConnection) -> PostgresResult<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let wanted = pending.iter().filter_map(|(at, one)| {
            let tenant = self.callers.get(*at)?.tenant.clone();
            Some(ItemRef::Item(ItemKey { tenant, item: one.item.clone() }))
        });
        let wanted: Vec<ItemRef> = wanted.collect();
        let wish = ItemQuery::of(&wanted);
        let loaded = wish.decode_rows(&wish.build_query().fetch_all(connection).await?)?;
        for ((at, assignment), loaded) in pending.into_iter().zip(loaded) {
            let Some(LoadedItem { work, .. }) = loaded else { continue };
            let again =
                AssignedWork { assignment, item: work.item, payload: work.payload, already_assigned: true };
            self.set_answer(at, Some(NextAssignment::Assigned(Box::new(again))));
        }
        Ok(())
    }

    fn set_answer(&mut self, at: usize, given: Option<NextAssignment>) {
        if let Some(slot) = self.given.get_mut(at) {
            *slot = given;
        }
    }

    /// Whether this transaction is done with the caller.
    pub(crate) fn is_served(&self, at: usize) -> bool {
        self.given.get(at).is_none_or(Option::is_some)
    }

    pub(crate) fn queues_asked(&self) -> BTreeSet<(TenantId, Name)> {
        let of = |(at, asking): (&usize, &AskingPerson)| {
            let tenant = self.callers.get(*at).map(|caller| caller.tenant.clone());
            let queues = asking.queues.clone();
            tenant.into_iter().flat_map(move |tenant| {
                queues.clone().into_iter().map(move |queue| (tenant.clone(), queue)).collect::<Vec<_>>()
            })
        };
        self.asking.iter().flat_map(of).collect()
    }

    /// Groups of callers with equal queues and skills.
    pub(crate) fn caller_groups(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<CallerGroupKey<'_>, Vec<usize>> = BTreeMap::new();
        for (at, asking) in &self.asking {
            if let Some(caller) = self.callers.get(*at) {
                groups.entry((&caller.tenant, &asking.queues, &asking.skills)).or_default().push(*at);
            }
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        groups.sort_by_key(|group| group.first().copied());
        groups
    }

    /// Writes assignments before the next group is searched, or at the end.
    pub(crate) async fn serve_group(
        &mut self,
        connection: &mut PgConnection,
        sets: &mut SkillSetView<'_>,
        group: &[usize],
        now: Timestamp,
    ) -> PostgresResult<()> {
        self.write_waves(connection, now).await?;
        let first = group.first().and_then(|at| Some((self.callers.get(*at)?, self.asking.get(at)?)));
        let Some((caller, asking)) = first else { return Ok(()) };
        let tenant = caller.tenant.clone();
        let search = OpeningSearch { tenant: &tenant, asking, count: group.len() };
        let found = opening_search::find_openings(connection, &search, sets).await?;
        let locked = opening_search::lock_openings(connection, &found, group.len()).await?;
        let standings: HashMap<&ItemKey, &OpeningCandidate> =
            found.iter().map(|(key, one)| (key, one)).collect();
        let mut items = Vec::new();
        for loaded in locked {
            let queue = self.queue_view(&tenant, &loaded.work.item.queue);
            let Some((queue, hint)) = queue.zip(standings.get(&loaded.key)) else { continue };
            let candidate = OpeningCandidate {
                queue: loaded.work.item.queue.clone(),
                skills: loaded.work.item.skills.clone(),
                needs: loaded.work.opening_count(),
                barred: loaded.work.barred_persons(&queue.config),
                standing: hint.standing,
            };
            items.push((loaded, candidate));
        }
        let callers: Vec<AskingPerson> = group.iter().filter_map(|at| self.asking.get(at).cloned()).collect();
        let candidates: Vec<OpeningCandidate> =
            items.iter().map(|(_, candidate)| candidate.clone()).collect();
        let chosen = select_openings(&callers, &candidates);
        let mut items: Vec<LoadedItem> = items.into_iter().map(|(loaded, _)| loaded).collect();
        for (at, chosen) in group.iter().zip(chosen) {
            let Some((caller, chosen)) = self.callers.get(*at).zip(chosen) else {
                if found.is_empty() && group.len() == 1 {
                    self.set_answer(*at, Some(NextAssignment::Nothing(PersonIdleReason::NothingOpen)));
                }
                continue;
            };
            let Some(loaded) = items.get_mut(chosen) else { continue };
            let Some(queue) = self.queue_view(&tenant, &loaded.work.item.queue) else { continue };
            let Some(commit) = opening_selection::assign_opening(loaded, queue, caller, now) else {
                continue;
            };
            *loaded = opening_selection::item_after_commit(&commit);
            let given = assigned_answer(&commit, caller.next);
            self.set_answer(*at, given);
            self.put_in_a_wave(commit);
        }
        Ok(())
    }

    fn put_in_a_wave(&mut self, commit: ItemCommit) {
        let has_it = |wave: &&Vec<ItemCommit>| wave.iter().any(|other| other.key == commit.key);
        let wave = self.waves.iter().take_while(has_it).count();
        match self.waves.get_mut(wave) {
            Some(wave) => wave.push(commit),
            None => self.waves.push(vec![commit]),
        }
    }

    async fn write_waves(&mut self, connection: &mut PgConnection, now: Timestamp) -> PostgresResult<()> {
        for wave in std::mem::take(&mut self.waves) {
            for (key, sum) in totals::of(&wave) {
                self.sums.entry(key).or_default().merge(&sum);
            }
            let commits: Vec<&ItemCommit> = wave.iter().collect();
            item_write::write(connection, &commits, &TotalsByPerson::new(), now).await?;
        }
        Ok(())
    }

    /// Writes the rest, and the totals with the last wave, because no lock is taken after them.
    pub(crate) async fn write_rest(
        mut self,
        connection: &mut PgConnection,
        now: Timestamp,
    ) -> PostgresResult<Vec<Option<NextAssignment>>> {
        let last = self.waves.pop().unwrap_or_default();
        self.write_waves(connection, now).await?;
        let mut sums = totals::of(&last);
        for (key, sum) in self.sums {
            sums.entry(key).or_default().merge(&sum);
        }
        item_write::write(connection, &last.iter().collect::<Vec<_>>(), &sums, now).await?;
        Ok(self.given)
    }

    fn queue_view(&self, tenant: &TenantId, name: &Name) -> Option<&QueueView> {
        self.queues.get(tenant)?.iter().find(|view| view.config.name == *name)
    }
}

fn assigned_answer(commit: &ItemCommit, id: AssignmentId) -> Option<NextAssignment> {
    let work = &commit.change.work;
    let assignment = work.assignments.get(&id)?.clone();
    let (item, payload) = (work.item.clone(), work.payload.clone());
    Some(NextAssignment::Assigned(Box::new(AssignedWork {
        assignment,
        item,
        payload,
        already_assigned: false,
    })))
}
