//! The outbox: feed entries that have not reached every sink yet.

use millstream_model::id::Name;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::outbox::{
    DeliveredParcel, FeedParcel, Outbox, ParcelBackoff, ParcelLimit, SinkBacklog, SinkPosition,
};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::{feed, param};

#[async_trait::async_trait]
impl Outbox for SqliteStore {
    async fn spread_entries(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        // A reader looks first: most of the time there are none, and then no caller waits for the writer.
        if self.read_transaction(move |connection| unmarked_positions(connection, 1)).await?.is_empty() {
            return Ok(0);
        }
        let sinks = sinks.to_vec();
        self.write_transaction(move |connection| spread_unmarked(connection, &sinks, limit, now)).await
    }

    async fn due_parcels(
        &self,
        sink: &Name,
        limit: ParcelLimit,
        now: Timestamp,
    ) -> StoreResult<Vec<FeedParcel>> {
        const DUE: &str = "
            SELECT * FROM outbox INDEXED BY outbox_due WHERE sink = ?1 AND due_at <= ?2
            ORDER BY due_at LIMIT ?3";
        const ENTRIES: &str = "
            SELECT * FROM graph_feed
            WHERE tenant = ?1 AND execution_id = ?2 AND position > ?3 AND position <= ?4
            ORDER BY position LIMIT ?5";
        let sink = sink.clone();
        self.read_transaction(move |connection| {
            let mut parcels = Vec::new();
            let mut due = connection.prepare_cached(DUE)?;
            let mut rows = due.query((sink.as_str(), now.as_millis(), param::limit(limit.executions)))?;
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let (execution, upto) = (row.execution()?, row.int("upto")?);
                let heard = SinkPosition { position: row.int("told")?, part: row.number("part")? };
                let range = (
                    execution.tenant.as_str(),
                    execution.execution.as_str(),
                    heard.position,
                    upto,
                    param::limit(limit.entries),
                );
                let entries = feed::decode_entries(connection.prepare_cached(ENTRIES)?.query(range)?)?;
                parcels.push(FeedParcel {
                    execution,
                    heard,
                    upto,
                    attempts: row.number("attempts")?,
                    entries,
                });
            }
            Ok(parcels)
        })
        .await
    }

    async fn advance_sinks(
        &self,
        sink: &Name,
        parcels: &[DeliveredParcel],
        now: Timestamp,
    ) -> StoreResult<()> {
        const ADVANCE: &str = "
            UPDATE outbox
            SET told = ?6, part = ?7, waiting = max(waiting - ?8, 0), since = ?9, due_at = ?10, attempts = 0
            WHERE tenant = ?1 AND execution_id = ?2 AND sink = ?3 AND told = ?4 AND part = ?5";
        const CLOSE: &str = "
            DELETE FROM outbox WHERE tenant = ?1 AND execution_id = ?2 AND sink = ?3 AND told >= upto";
        if parcels.is_empty() {
            return Ok(());
        }
        let (sink, parcels) = (sink.clone(), parcels.to_vec());
        self.write_transaction(move |connection| {
            let mut advance = connection.prepare_cached(ADVANCE)?;
            let mut close = connection.prepare_cached(CLOSE)?;
            for parcel in &parcels {
                let key = &parcel.execution;
                let place = (key.tenant.as_str(), key.execution.as_str(), sink.as_str());
                advance.execute((
                    place.0,
                    place.1,
                    place.2,
                    parcel.from.position,
                    parcel.from.part,
                    parcel.to.position,
                    parcel.to.part,
                    param::limit(parcel.entries),
                    parcel.at.as_millis(),
                    now.as_millis(),
                ))?;
                close.execute(place)?;
            }
            Ok(())
        })
        .await
    }

    async fn postpone_parcels(&self, sink: &Name, executions: &[ParcelBackoff]) -> StoreResult<()> {
        const PUT_OFF: &str = "
            UPDATE outbox SET due_at = ?4, attempts = ?5
            WHERE tenant = ?1 AND execution_id = ?2 AND sink = ?3";
        if executions.is_empty() {
            return Ok(());
        }
        let (sink, executions) = (sink.clone(), executions.to_vec());
        self.write_transaction(move |connection| {
            let mut put_off = connection.prepare_cached(PUT_OFF)?;
            for ParcelBackoff { execution, until, attempts } in &executions {
                let (tenant, id) = (execution.tenant.as_str(), execution.execution.as_str());
                put_off.execute((tenant, id, sink.as_str(), until.as_millis(), attempts))?;
            }
            Ok(())
        })
        .await
    }

    async fn count_backlogs(&self) -> StoreResult<Vec<SinkBacklog>> {
        const BACKLOGS: &str = "
            SELECT sink, count(*) AS executions, sum(waiting) AS entries, min(since) AS oldest
            FROM outbox GROUP BY sink ORDER BY sink";
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(BACKLOGS)?;
            let (mut rows, mut backlogs) = (read.query([])?, Vec::new());
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                backlogs.push(SinkBacklog {
                    sink: row.id("sink")?,
                    executions: row.count("executions")?,
                    entries: row.count("entries")?,
                    oldest: row.time("oldest")?,
                });
            }
            Ok(backlogs)
        })
        .await
    }
}

/// The positions of entries that are not spread yet.
fn unmarked_positions(connection: &Connection, limit: usize) -> SqliteResult<Vec<i64>> {
    // The index by name: otherwise the rows would be scanned in their own order from the beginning.
    const UNMARKED: &str = "
        SELECT position FROM graph_feed INDEXED BY graph_feed_unpublished
        WHERE published = 0 ORDER BY position LIMIT ?1";
    let mut find = connection.prepare_cached(UNMARKED)?;
    let found =
        find.query_map([param::limit(limit)], |row| row.get(0))?.collect::<std::result::Result<_, _>>()?;
    Ok(found)
}

fn spread_unmarked(
    connection: &Connection,
    sinks: &[Name],
    limit: usize,
    now: Timestamp,
) -> SqliteResult<usize> {
    const NOTE: &str = "
        INSERT INTO outbox (sink, tenant, execution_id, told, part, upto, waiting, since, due_at, attempts)
        SELECT ?2, f.tenant, f.execution_id, f.position - 1, 0, f.position, 1, f.at, ?3, 0
        FROM graph_feed AS f WHERE f.position = ?1
        ON CONFLICT (tenant, execution_id, sink) DO UPDATE SET
            upto = max(upto, excluded.upto), waiting = waiting + 1";
    const MARK: &str = "UPDATE graph_feed SET published = 1 WHERE position = ?1";
    let positions = unmarked_positions(connection, limit)?;
    let mut note = connection.prepare_cached(NOTE)?;
    let mut mark = connection.prepare_cached(MARK)?;
    for position in &positions {
        for sink in sinks {
            note.execute((position, sink.as_str(), now.as_millis()))?;
        }
        mark.execute([position])?;
    }
    Ok(positions.len())
}
