//! Handing out assignments: each caller gets the pending assignment, or the first suitable opening of the
//! queues.
//!
//! Callers are locked for the whole transaction, so that concurrent requests of one person cannot exceed a
//! limit. Callers with the same tenant, queues and skills are searched for together; `people` decides who gets
//! which of the locked items. A caller without a result retries while other transactions held suitable items.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use millstream_model::id::AssignmentId;
use millstream_model::time::Timestamp;
use millstream_store::assignments::{AssignmentCaller, Assignments, NextAssignment, OverdueItem};
use millstream_store::{StoreError, StoreResult};
use sqlx::Row;
use uuid::Uuid;

use crate::caller_batch::CallerBatch;
use crate::caller_facts::{lock_people, read_known};
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::item_rows::item_key;

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
