//! Views of runs, in memory.

use std::cmp::Reverse;

use millstream_devices::claim::OccupiedSeat;
use millstream_model::id::{DeviceKey, RunKey, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::run_seats;
use millstream_store::run_store::{FleetCounts, RunEntry, RunFilter, RunViews, StoredRun};

use crate::MemoryStore;

#[async_trait::async_trait]
impl RunViews for MemoryStore {
    async fn list_runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<StoredRun>> {
        let tables = self.lock_tables();
        let is_meant = |row: &&StoredRun| {
            let execution = row.run.waiting.as_ref().map(|waiting| &waiting.key.execution.execution);
            row.key.tenant == *tenant
                && after.is_none_or(|after| row.position < after)
                && filter.status.is_none_or(|status| row.run.status() == status)
                && filter.kind.as_ref().is_none_or(|kind| row.run.kind == *kind)
                && filter.execution.as_ref().is_none_or(|wanted| execution == Some(wanted))
        };
        let mut rows: Vec<&StoredRun> = tables.runs.values().filter(is_meant).collect();
        rows.sort_by_key(|row| Reverse(row.position));
        Ok(rows.into_iter().take(limit).cloned().collect())
    }

    async fn seats_of(&self, devices: &[DeviceKey], limit: usize) -> StoreResult<Vec<Vec<OccupiedSeat>>> {
        let tables = self.lock_tables();
        let seats = |device: &DeviceKey| {
            let runs = tables.runs.values().filter(|row| row.key.tenant == device.tenant);
            let all =
                runs.flat_map(|row| row.run.numbered_seats().map(move |(number, seat)| (row, number, seat)));
            let mut held: Vec<OccupiedSeat> = all
                .filter_map(|(row, number, seat)| {
                    let held = seat.current_holding().filter(|held| held.device == device.device)?;
                    Some(OccupiedSeat {
                        run: row.key.clone(),
                        seat: number,
                        device: held.device.clone(),
                        token: held.token,
                        status: seat.status(),
                        priority: row.run.priority,
                        assigned_at: held.assigned_at,
                    })
                })
                .collect();
            held.sort_by(|one, other| {
                let key = |seat: &OccupiedSeat| (Reverse(seat.priority), seat.assigned_at);
                key(one).cmp(&key(other)).then_with(|| one.run.cmp(&other.run))
            });
            held.truncate(limit);
            held
        };
        Ok(devices.iter().map(seats).collect())
    }

    async fn run_log(&self, run: &RunKey, after: i64, limit: usize) -> StoreResult<Vec<RunEntry>> {
        let tables = self.lock_tables();
        let entries = tables.run_log.iter().filter(|(key, entry)| key == run && entry.position > after);
        Ok(entries.map(|(_, entry)| entry.clone()).take(limit).collect())
    }

    async fn run_log_end(&self, run: &RunKey, limit: usize) -> StoreResult<Vec<RunEntry>> {
        let tables = self.lock_tables();
        let last = tables.run_log.iter().rev().filter(|(key, _)| key == run).take(limit);
        let mut entries: Vec<RunEntry> = last.map(|(_, entry)| entry.clone()).collect();
        entries.reverse();
        Ok(entries)
    }

    async fn count_fleet(&self, since: Timestamp) -> StoreResult<FleetCounts> {
        let tables = self.lock_tables();
        let mut counts = FleetCounts { devices: tables.devices.len() as u64, ..FleetCounts::default() };
        counts.heard = tables.devices.values().filter(|device| device.seen_at >= since).count() as u64;
        for seat in tables.runs.values().flat_map(|stored| run_seats::seat_rows(&stored.run)) {
            if seat.due_at.is_some() {
                *counts.seats.entry(seat.status).or_default() += 1;
            }
        }
        Ok(counts)
    }
}
