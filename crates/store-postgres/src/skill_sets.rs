//! The sets of skills that items ask for, kept in memory.
//!
//! They are never changed and numbered under a lock, so whoever knows all up to a number asks for those above it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_core::id::{Name, TenantId};
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::Attempt;

/// By number.
pub(crate) type Sets = Arc<BTreeMap<i64, BTreeSet<Name>>>;

#[derive(Debug, Default)]
pub(crate) struct SkillSets(Mutex<HashMap<(TenantId, Name), Sets>>);

impl SkillSets {
    /// All sets of these queues.
    pub(crate) async fn of(
        &self,
        connection: &mut PgConnection,
        queues: &BTreeSet<(TenantId, Name)>,
    ) -> Attempt<HashMap<(TenantId, Name), Sets>> {
        const READ: &str = "
SELECT s.tenant, s.queue, s.set_id, s.skills
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k(tenant, queue, known)
CROSS JOIN LATERAL (
    SELECT * FROM skill_sets s
    WHERE s.tenant = k.tenant AND s.queue = k.queue AND s.set_id > k.known OFFSET 0
) s";
        let mut known: HashMap<(TenantId, Name), Sets> = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            queues.iter().map(|queue| (queue.clone(), kept.get(queue).cloned().unwrap_or_default())).collect()
        };
        let last = |queue: &(TenantId, Name)| {
            known.get(queue).and_then(|sets| sets.last_key_value()).map_or(0, |(number, _)| *number)
        };
        let rows = sqlx::query(READ)
            .bind(queues.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
            .bind(queues.iter().map(|(_, queue)| queue.as_str()).collect::<Vec<_>>())
            .bind(queues.iter().map(last).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        if rows.is_empty() {
            return Ok(known);
        }
        for row in &rows {
            let queue = (decode::parsed(row, "tenant")?, decode::parsed(row, "queue")?);
            let sets = Arc::make_mut(known.entry(queue).or_default());
            sets.insert(row.try_get("set_id")?, decode::list(row, "skills")?);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (queue, sets) in &known {
            let there = kept.entry(queue.clone()).or_default();
            if there.len() < sets.len() {
                *there = sets.clone();
            }
        }
        Ok(known)
    }
}
