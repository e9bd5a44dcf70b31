//! Cache of the skill sets that items require.
//!
//! They never change and are numbered under a lock, so a cache that has all sets up to a number only reads
//! those above it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_model::id::{Name, TenantId};
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::PostgresResult;

/// By number.
pub(crate) type QueueSkillSets = Arc<BTreeMap<i64, BTreeSet<Name>>>;

#[derive(Debug, Default)]
pub(crate) struct SkillSetCache(Mutex<HashMap<(TenantId, Name), QueueSkillSets>>);

impl SkillSetCache {
    /// The cached sets of these queues.
    pub(crate) fn view_of(&self, queues: BTreeSet<(TenantId, Name)>) -> SkillSetView<'_> {
        let kept = self.lock_sets();
        let known = queues.iter().map(|queue| (queue.clone(), kept.get(queue).cloned().unwrap_or_default()));
        SkillSetView { sets: known.collect(), queues, is_complete: false, all: self }
    }

    fn lock_sets(&self) -> MutexGuard<'_, HashMap<(TenantId, Name), QueueSkillSets>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sets of some queues, as far as they were read. A cached set never becomes stale.
#[derive(Debug)]
pub(crate) struct SkillSetView<'a> {
    queues: BTreeSet<(TenantId, Name)>,
    sets: HashMap<(TenantId, Name), QueueSkillSets>,
    is_complete: bool,
    all: &'a SkillSetCache,
}

impl SkillSetView<'_> {
    pub(crate) fn sets_of(&self, queue: &(TenantId, Name)) -> Option<&QueueSkillSets> {
        self.sets.get(queue)
    }

    /// Reads all existing sets, at most once.
    pub(crate) async fn read_all(&mut self, connection: &mut PgConnection) -> PostgresResult<()> {
        const READ: &str = "
SELECT s.tenant, s.queue, s.set_id, s.skills
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k(tenant, queue, known)
CROSS JOIN LATERAL (
    SELECT * FROM skill_sets s
    WHERE s.tenant = k.tenant AND s.queue = k.queue AND s.set_id > k.known OFFSET 0
) s";
        if std::mem::replace(&mut self.is_complete, true) {
            return Ok(());
        }
        let last = |queue: &(TenantId, Name)| {
            self.sets_of(queue).and_then(|sets| sets.last_key_value()).map_or(0, |(number, _)| *number)
        };
        let rows = sqlx::query(READ)
            .bind(self.queues.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
            .bind(self.queues.iter().map(|(_, queue)| queue.as_str()).collect::<Vec<_>>())
            .bind(self.queues.iter().map(last).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            let queue = (decode::parsed(row, "tenant")?, decode::parsed(row, "queue")?);
            let sets = Arc::make_mut(self.sets.entry(queue).or_default());
            sets.insert(row.try_get("set_id")?, decode::list(row, "skills")?);
        }
        let mut kept = self.all.lock_sets();
        for (queue, sets) in &self.sets {
            let there = kept.entry(queue.clone()).or_default();
            if there.len() < sets.len() {
                *there = sets.clone();
            }
        }
        Ok(())
    }
}
