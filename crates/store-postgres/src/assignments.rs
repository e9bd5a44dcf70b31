//! Handing out assignments: each caller gets the pending assignment, or the first suitable opening of the
//! queues.
//!
//! Callers are locked for the whole transaction, so that concurrent requests of one person cannot exceed a
//! limit. Callers with the same tenant, queues and skills are searched for together; `people` decides who gets
//! which of the locked items. A caller without a result retries while other transactions held suitable items.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::{
    AskingPerson, OpeningCandidate, PersonIdleReason, PersonLoad, PersonProfile, select_openings,
};
use millstream_people::assignment::{AssignmentStatus, ItemAssignment};
use millstream_store::assignments::{
    AssignedWork, AssignmentCaller, Assignments, NextAssignment, OverdueItem,
};
use millstream_store::item_store::{ItemCommit, ItemRef, LoadedItem};
use millstream_store::opening_selection;
use millstream_store::queue_store::QueueView;
use millstream_store::{StoreError, StoreResult};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::item_rows::{self, item_key};
use crate::item_store::ItemQuery;
use crate::item_write;
use crate::opening_search::{self, OpeningSearch};
use crate::queue_store::{QueueConfigCache, list_queues, read_queues};
use crate::skill_sets::SkillSetView;
use crate::totals::{self, TotalsByPerson};

/// Upper bound on queues for a caller that names none.
const MOST_QUEUES: usize = 1_000;
/// How many callers one transaction serves.
const BATCH: usize = 64;
/// How often a caller without a result retries while other transactions hold items.
const LOOKS: u32 = 60;

#[async_trait]
impl Assignments for PostgresStore {
    async fn assign_next(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> StoreResult<Vec<NextAssignment>> {
        let mut given: Vec<Option<NextAssignment>> = vec![None; callers.len()];
        let mut tries = 0;
        loop {
            // Each person once per transaction: the second request returns the assignment of the first.
            let mut people = BTreeSet::new();
            let unserved = given.iter().enumerate().filter(|(_, given)| given.is_none()).map(|(at, _)| at);
            let turn: Vec<usize> = unserved
                .filter(|at| {
                    callers.get(*at).is_some_and(|caller| people.insert((&caller.tenant, &caller.person)))
                })
                .take(BATCH)
                .collect();
            if turn.is_empty() {
                return Ok(given.into_iter().flatten().collect());
            }
            let asked: Vec<AssignmentCaller> =
                turn.iter().filter_map(|at| callers.get(*at).cloned()).collect();
            let answers = self.with_retries(|| self.next_once(&asked, now)).await?;
            let served = answers.iter().any(Option::is_some);
            for (at, answer) in turn.into_iter().zip(answers) {
                if let Some(slot) = given.get_mut(at) {
                    *slot = answer;
                }
            }
            tries = if served { 0 } else { tries + 1 };
            if tries > LOOKS {
                return Err(StoreError::Contention("other transactions hold all open items".to_owned()));
            }
            if tries > 0 {
                tokio::time::sleep(Duration::from_millis(u64::from(tries.min(20)))).await;
            }
        }
    }

    async fn list_overdue(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<OverdueItem>> {
        const DUE: &str = "
(SELECT tenant, item, assignment, due_at FROM assignments WHERE due_at <= $1 ORDER BY due_at LIMIT $2)
UNION ALL
(SELECT tenant, item, NULL::uuid, due_at FROM items WHERE due_at <= $1 ORDER BY due_at LIMIT $2)
ORDER BY due_at, tenant, item LIMIT $2";
        self.without_retries(async {
            let rows = sqlx::query(DUE)
                .bind(now.as_millis())
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter()
                .map(|row| {
                    let assignment = row.try_get::<Option<Uuid>, _>("assignment")?.map(AssignmentId);
                    Ok(OverdueItem { item: item_key(row)?, assignment, at: decode::time(row, "due_at")? })
                })
                .collect()
        })
        .await
    }
}

impl PostgresStore {
    /// `None` for a caller that has to retry. Each person occurs once.
    async fn next_once(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> PostgresResult<Vec<Option<NextAssignment>>> {
        let mut held = self.warm.hold_connection().await?;
        let mut transaction = held.begin().await?;
        lock_people(&mut transaction, callers).await?;
        let known = read_known(&mut transaction, callers).await?;
        let mut desk = CallerBatch::read_batch(&mut transaction, &self.configs, callers, &known).await?;
        let mut sets = self.skills.view_of(desk.queues_asked());
        for group in desk.caller_groups() {
            desk.serve_group(&mut transaction, &mut sets, &group, now).await?;
            // Callers without a suitable item in the group's search, one by one.
            if group.len() > 1 {
                for at in group.into_iter().filter(|at| !desk.is_served(*at)).collect::<Vec<_>>() {
                    desk.serve_group(&mut transaction, &mut sets, &[at], now).await?;
                }
            }
        }
        desk.return_pending(&mut transaction).await?;
        let given = desk.write_rest(&mut transaction, now).await?;
        transaction.commit().await?;
        held.return_warm();
        Ok(given)
    }
}

/// In the order of their keys, before every other lock.
async fn lock_people(connection: &mut PgConnection, callers: &[AssignmentCaller]) -> PostgresResult<()> {
    const LOCK: &str = "
SELECT pg_advisory_xact_lock(p.number) FROM (
    SELECT DISTINCT hashtextextended(k.tenant || '/' || k.person, 5) AS number
    FROM unnest($1::text[], $2::text[]) AS k(tenant, person) ORDER BY number OFFSET 0
) p";
    sqlx::query(LOCK)
        .bind(callers.iter().map(|caller| caller.tenant.as_str()).collect::<Vec<_>>())
        .bind(callers.iter().map(|caller| caller.person.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    Ok(())
}

/// Profile and assignments of a caller.
struct CallerFacts {
    profile: PersonProfile,
    open: Vec<ItemAssignment>,
}

/// In the order of the callers.
async fn read_known(
    connection: &mut PgConnection,
    callers: &[AssignmentCaller],
) -> PostgresResult<Vec<CallerFacts>> {
    const READ: &str = "
SELECT p.skills, p.state, ARRAY(
    SELECT a.body FROM assignments a WHERE a.person = k.person AND a.tenant = k.tenant AND a.is_open
) AS open
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k(tenant, person, ord)
LEFT JOIN people p ON p.tenant = k.tenant AND p.person = k.person
ORDER BY k.ord";
    let rows = sqlx::query(READ)
        .bind(callers.iter().map(|caller| caller.tenant.as_str()).collect::<Vec<_>>())
        .bind(callers.iter().map(|caller| caller.person.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let known = |(row, caller): (&PgRow, &AssignmentCaller)| {
        let mut profile = PersonProfile::unknown(caller.person.clone());
        if let Some(state) = decode::parsed_option(row, "state")? {
            profile = PersonProfile { skills: decode::list(row, "skills")?, state, ..profile };
        }
        let mut open = Vec::new();
        for body in row.try_get::<Vec<String>, _>("open")? {
            open.push(item_rows::decode_assignment(&body)?);
        }
        Ok(CallerFacts { profile, open })
    };
    rows.iter().zip(callers).map(known).collect()
}

/// Tenant, queues and skills that a group of callers shares.
type CallerGroupKey<'a> = (&'a TenantId, &'a BTreeSet<Name>, &'a BTreeSet<Name>);

/// A batch of callers being served.
struct CallerBatch<'a> {
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
    async fn read_batch(
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
    async fn return_pending(&mut self, connection: &mut PgConnection) -> PostgresResult<()> {
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
    fn is_served(&self, at: usize) -> bool {
        self.given.get(at).is_none_or(Option::is_some)
    }

    fn queues_asked(&self) -> BTreeSet<(TenantId, Name)> {
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
    fn caller_groups(&self) -> Vec<Vec<usize>> {
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
    async fn serve_group(
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
    async fn write_rest(
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

/// The requested queues.
async fn read_asked(
    connection: &mut PgConnection,
    configs: &QueueConfigCache,
    callers: &[&AssignmentCaller],
) -> PostgresResult<HashMap<TenantId, Vec<QueueView>>> {
    let of_all: BTreeSet<&TenantId> =
        callers.iter().filter(|caller| caller.queues.is_empty()).map(|caller| &caller.tenant).collect();
    let mut named: BTreeSet<(TenantId, Name)> = BTreeSet::new();
    for caller in callers.iter().filter(|caller| !of_all.contains(&caller.tenant)) {
        named.extend(caller.queues.iter().map(|queue| (caller.tenant.clone(), queue.clone())));
    }
    let mut found = Vec::new();
    for tenant in of_all {
        found.extend(list_queues(connection, configs, tenant, "", MOST_QUEUES).await?);
    }
    if !named.is_empty() {
        found.extend(read_queues(connection, configs, &named.into_iter().collect::<Vec<_>>()).await?);
    }
    let mut queues: HashMap<TenantId, Vec<QueueView>> = HashMap::new();
    for (tenant, view) in found {
        queues.entry(tenant).or_default().push(view);
    }
    Ok(queues)
}

/// Completed counts of people, for queues that balance by them.
async fn read_completed(
    connection: &mut PgConnection,
    callers: &[&AssignmentCaller],
    queues: &HashMap<TenantId, Vec<QueueView>>,
) -> PostgresResult<HashMap<((TenantId, PersonId), Name), u64>> {
    const READ: &str = "
SELECT k.tenant, k.queue, k.person, t.completed
FROM unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, queue, person)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(t.completed), 0)::bigint AS completed FROM queue_totals t
    WHERE t.tenant = k.tenant AND t.queue = k.queue AND t.person = k.person
) t";
    let mut wanted: Vec<(&str, &str, &str)> = Vec::new();
    for caller in callers {
        let views = queues.get(&caller.tenant).into_iter().flatten();
        for view in views.filter(|view| view.config.per_person.total.is_some()) {
            if opening_selection::requests_queue(caller, &view.config.name) {
                wanted.push((caller.tenant.as_str(), view.config.name.as_str(), caller.person.as_str()));
            }
        }
    }
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(READ)
        .bind(wanted.iter().map(|(tenant, _, _)| *tenant).collect::<Vec<_>>())
        .bind(wanted.iter().map(|(_, queue, _)| *queue).collect::<Vec<_>>())
        .bind(wanted.iter().map(|(_, _, person)| *person).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let person = (decode::parsed(row, "tenant")?, decode::parsed(row, "person")?);
            let completed: i64 = row.try_get("completed")?;
            Ok(((person, decode::parsed(row, "queue")?), completed.unsigned_abs()))
        })
        .collect()
}
