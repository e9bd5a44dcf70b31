//! The outbox, in memory.

use std::collections::BTreeMap;

use millstream_model::id::{ExecutionKey, Name};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::outbox::{
    DeliveredParcel, FeedParcel, Outbox, ParcelBackoff, ParcelLimit, SinkBacklog, SinkPosition,
};

use crate::MemoryStore;
use crate::outbound_rows::OutboxRow;

#[async_trait::async_trait]
impl Outbox for MemoryStore {
    async fn spread_entries(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        let mut tables = self.lock_tables();
        let tables = &mut *tables;
        let mut spread = 0;
        for row in tables.feed.iter_mut().filter(|row| !row.published).take(limit) {
            row.published = true;
            spread += 1;
            let entry = &row.entry;
            for sink in sinks {
                let place = (sink.clone(), entry.execution.clone());
                let waiting = tables.outbox.entry(place).or_insert_with(|| OutboxRow {
                    heard: SinkPosition { position: entry.position - 1, part: 0 },
                    upto: entry.position,
                    waiting: 0,
                    since: entry.at,
                    due_at: now,
                    attempts: 0,
                });
                waiting.upto = waiting.upto.max(entry.position);
                waiting.waiting += 1;
            }
        }
        Ok(spread)
    }

    async fn due_parcels(
        &self,
        sink: &Name,
        limit: ParcelLimit,
        now: Timestamp,
    ) -> StoreResult<Vec<FeedParcel>> {
        let tables = self.lock_tables();
        let of_sink = tables.outbox.iter().filter(|((of, _), row)| of == sink && row.due_at <= now);
        let mut due: Vec<(&ExecutionKey, &OutboxRow)> = of_sink.map(|((_, key), row)| (key, row)).collect();
        due.sort_by_key(|(_, row)| row.due_at);
        let parcel = |(key, row): (&ExecutionKey, &OutboxRow)| {
            let entries = tables.feed.iter().map(|row| &row.entry).filter(|entry| {
                entry.execution == *key && entry.position > row.heard.position && entry.position <= row.upto
            });
            FeedParcel {
                execution: key.clone(),
                heard: row.heard,
                upto: row.upto,
                attempts: row.attempts,
                entries: entries.take(limit.entries).cloned().collect(),
            }
        };
        Ok(due.into_iter().take(limit.executions).map(parcel).collect())
    }

    async fn advance_sinks(
        &self,
        sink: &Name,
        parcels: &[DeliveredParcel],
        now: Timestamp,
    ) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for parcel in parcels {
            let place = (sink.clone(), parcel.execution.clone());
            let Some(row) = tables.outbox.get_mut(&place).filter(|row| row.heard == parcel.from) else {
                continue;
            };
            row.heard = parcel.to;
            row.waiting = row.waiting.saturating_sub(parcel.entries as u64);
            (row.since, row.due_at, row.attempts) = (parcel.at, now, 0);
            if row.heard.position >= row.upto {
                tables.outbox.remove(&place);
            }
        }
        Ok(())
    }

    async fn postpone_parcels(&self, sink: &Name, executions: &[ParcelBackoff]) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for ParcelBackoff { execution, until, attempts } in executions {
            if let Some(row) = tables.outbox.get_mut(&(sink.clone(), execution.clone())) {
                (row.due_at, row.attempts) = (*until, *attempts);
            }
        }
        Ok(())
    }

    async fn count_backlogs(&self) -> StoreResult<Vec<SinkBacklog>> {
        let mut backlogs: BTreeMap<Name, SinkBacklog> = BTreeMap::new();
        for ((sink, _), row) in &self.lock_tables().outbox {
            let backlog = backlogs.entry(sink.clone()).or_insert_with(|| SinkBacklog {
                sink: sink.clone(),
                executions: 0,
                entries: 0,
                oldest: row.since,
            });
            backlog.executions += 1;
            backlog.entries += row.waiting;
            backlog.oldest = backlog.oldest.min(row.since);
        }
        Ok(backlogs.into_values().collect())
    }
}
