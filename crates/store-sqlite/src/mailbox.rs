//! The mailbox of an execution: which waiting events one visit takes.
//!
//! Two statements: numbers and sizes first, which the index and the row headers answer, then only the
//! rows that fit. A backlog of any length or weight costs one visit's worth of memory.

use std::collections::HashMap;

use millstream_core::id::ExecutionKey;
use millstream_core::log::Waiting;
use millstream_store::Result;
use millstream_store::execution_store::{MailboxLimits, More};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, ExecutionParam};

/// The rows of one mailbox, in acceptance order.
pub(crate) struct Mailbox {
    rows: Vec<SqliteRow>,
    pub(crate) more: More,
}

impl Default for Mailbox {
    fn default() -> Self {
        Self { rows: Vec::new(), more: More::Nothing }
    }
}

impl Mailbox {
    pub(crate) fn decode(&self) -> Result<Vec<Waiting>> {
        self.rows.iter().map(|row| Fields(row).waiting()).collect()
    }
}

/// The mailboxes of executions, by their place in `executions`.
pub(crate) async fn read_mailboxes<'a>(
    connection: &mut SqliteConnection,
    executions: impl Iterator<Item = &'a ExecutionKey>,
    limits: MailboxLimits,
) -> Result<HashMap<usize, Mailbox>> {
    let keys = param::rows(executions.map(ExecutionParam::of))?;
    let mut undecided: HashMap<usize, Slice> = HashMap::new();
    for row in size_undecided(connection, &keys, limits).await?.iter().map(Fields) {
        let bytes = row.index("bytes")?;
        undecided.entry(row.index("place")?).or_default().add(row.int("accept_no")?, bytes, limits);
    }
    let deferred = number_deferred(connection, &keys).await?;

    let mut mailboxes: HashMap<usize, Mailbox> = HashMap::new();
    let mut taken = Vec::new();
    for (place, slice) in undecided {
        mailboxes.entry(place).or_default().more = slice.more;
        taken.extend(slice.taken.into_iter().map(|number| (number, place)));
    }
    for row in deferred.iter().map(Fields) {
        taken.push((row.int("accept_no")?, row.index("place")?));
    }
    if taken.is_empty() {
        return Ok(mailboxes);
    }
    for row in read_waiting(connection, &taken).await? {
        mailboxes.entry(Fields(&row).index("place")?).or_default().rows.push(row);
    }
    Ok(mailboxes)
}

/// The head of a mailbox that fits the limits.
struct Slice {
    taken: Vec<i64>,
    bytes: usize,
    more: More,
}

impl Default for Slice {
    fn default() -> Self {
        Self { taken: Vec::new(), bytes: 0, more: More::Nothing }
    }
}

impl Slice {
    /// The next event in order. Once one did not fit, nothing behind it is taken.
    fn add(&mut self, number: i64, bytes: usize, limits: MailboxLimits) {
        let fits = self.taken.len() < limits.events && self.bytes.saturating_add(bytes) <= limits.bytes;
        match self.more {
            More::Nothing if fits || self.taken.is_empty() => {
                self.taken.push(number);
                self.bytes = self.bytes.saturating_add(bytes);
            }
            More::Nothing | More::Remains => self.more = More::Remains,
        }
    }
}

/// Numbers and sizes of the first undecided events of each execution: one more than the limit, which
/// tells whether there are more. While paused, only cancellations.
async fn size_undecided(
    connection: &mut SqliteConnection,
    keys: &str,
    limits: MailboxLimits,
) -> Result<Vec<SqliteRow>> {
    const SIZE_UNDECIDED: &str = "
        SELECT i.key AS place, e.accept_no, octet_length(e.payload) AS bytes
        FROM json_each(?1) AS i
        CROSS JOIN executions AS x
            ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'
        CROSS JOIN events AS e
            ON e.accept_no IN (
                SELECT m.accept_no FROM events AS m INDEXED BY events_mailbox
                WHERE m.tenant = x.tenant AND m.execution_id = x.execution_id
                  AND m.status IN ('pending', 'deferred') AND m.status = 'pending'
                  AND (x.paused_reason IS NULL OR m.name = 'millstream.cancel')
                ORDER BY m.accept_no
                LIMIT ?2)
        ORDER BY i.key, e.accept_no";
    sqlx::query(SIZE_UNDECIDED)
        .bind(keys)
        .bind(param::limit(limits.events.max(1).saturating_add(1)))
        .fetch_all(connection)
        .await
        .map_err(store_error)
}

async fn number_deferred(connection: &mut SqliteConnection, keys: &str) -> Result<Vec<SqliteRow>> {
    const NUMBER_DEFERRED: &str = "
        SELECT i.key AS place, e.accept_no
        FROM json_each(?1) AS i
        CROSS JOIN events AS e INDEXED BY events_mailbox
            ON e.tenant = i.value ->> 'tenant' AND e.execution_id = i.value ->> 'execution'
           AND e.status IN ('pending', 'deferred') AND e.status = 'deferred'";
    sqlx::query(NUMBER_DEFERRED).bind(keys).fetch_all(connection).await.map_err(store_error)
}

async fn read_waiting(connection: &mut SqliteConnection, taken: &[(i64, usize)]) -> Result<Vec<SqliteRow>> {
    const READ_WAITING: &str = "
        SELECT i.value ->> 1 AS place, e.event_id, e.accept_no, e.name, e.payload, e.created_at, e.timer_seq,
               e.status, e.attempts, e.traceparent
        FROM json_each(?1) AS i
        CROSS JOIN events AS e ON e.accept_no = i.value ->> 0
        ORDER BY e.accept_no";
    sqlx::query(READ_WAITING).bind(param::rows(taken)?).fetch_all(connection).await.map_err(store_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sizes: &[usize], events: usize, bytes: usize) -> (Vec<i64>, More) {
        let mut slice = Slice::default();
        for (number, size) in (1..).zip(sizes) {
            slice.add(number, *size, MailboxLimits { events, bytes });
        }
        (slice.taken, slice.more)
    }

    #[test]
    fn takes_what_fits_and_never_skips_a_heavy_one() {
        assert_eq!(cut(&[1, 1, 1], 2, 100), (vec![1, 2], More::Remains));
        assert_eq!(cut(&[10, 100, 1], 9, 50), (vec![1], More::Remains));
        assert_eq!(cut(&[10, 10], 9, 20), (vec![1, 2], More::Nothing));
    }

    #[test]
    fn takes_at_least_one() {
        assert_eq!(cut(&[500, 1], 9, 50), (vec![1], More::Remains));
        assert_eq!(cut(&[500], 0, 0), (vec![1], More::Nothing));
    }
}
