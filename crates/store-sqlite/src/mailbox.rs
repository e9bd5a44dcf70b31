//! The mailbox of an execution: which waiting events one visit takes.
//!
//! Rows are read in order until one does not fit; later rows are not read. A backlog of any length or size
//! costs one visit's worth of memory.

use millstream_model::id::ExecutionKey;
use millstream_model::status::PauseState;
use millstream_store::execution_store::{MailboxLimits, PageRemainder};
use millstream_workflow::log::{MailboxEvent, MailboxState};
use rusqlite::{CachedStatement, Connection};

use crate::decode::SqliteFields;
use crate::errors::SqliteResult;

pub(crate) struct MailboxReader<'c> {
    read_undecided: CachedStatement<'c>,
    read_deferred: CachedStatement<'c>,
    limits: MailboxLimits,
}

impl<'c> MailboxReader<'c> {
    pub(crate) fn prepare(connection: &'c Connection, limits: MailboxLimits) -> SqliteResult<Self> {
        const READ_UNDECIDED: &str = "
            SELECT m.bytes, m.event_id, m.accept_no, e.name, e.payload, e.created_at, e.timer_seq, e.attempts,
                   e.traceparent
            FROM mailbox AS m
            CROSS JOIN events AS e ON e.accept_no = m.accept_no
            WHERE m.tenant = ?1 AND m.execution_id = ?2 AND m.deferred = 0 AND (?3 OR m.cancels = 1)
            ORDER BY m.accept_no";
        const READ_DEFERRED: &str = "
            SELECT m.bytes, m.event_id, m.accept_no, e.name, e.payload, e.created_at, e.timer_seq, e.attempts,
                   e.traceparent
            FROM mailbox AS m INDEXED BY mailbox_deferred
            CROSS JOIN events AS e ON e.accept_no = m.accept_no
            WHERE m.tenant = ?1 AND m.execution_id = ?2 AND m.deferred = 1
            ORDER BY m.accept_no";
        Ok(Self {
            read_undecided: connection.prepare_cached(READ_UNDECIDED)?,
            read_deferred: connection.prepare_cached(READ_DEFERRED)?,
            limits,
        })
    }

    /// While paused, the only undecided events in it are those that end the execution by request.
    pub(crate) fn read_mailbox(
        &mut self,
        key: &ExecutionKey,
        pause: PauseState,
    ) -> SqliteResult<(Vec<MailboxEvent>, PageRemainder)> {
        let takes_all = match pause {
            PauseState::Running => true,
            PauseState::Paused => false,
        };
        let (tenant, execution) = (key.tenant.as_str(), key.execution.as_str());
        let mut room = MailboxRoom::of(self.limits);
        let (mut mailbox, mut more) = (Vec::new(), PageRemainder::Nothing);
        let mut rows = self.read_undecided.query((tenant, execution, takes_all))?;
        while let Some(row) = rows.next()? {
            let row = SqliteFields(row);
            if !room.take_if_fits(row.size(0)?) {
                more = PageRemainder::Remains;
                break;
            }
            mailbox.push(decode_waiting(row, MailboxState::Undecided)?);
        }
        let undecided = mailbox.len();
        let mut rows = self.read_deferred.query((tenant, execution))?;
        while let Some(row) = rows.next()? {
            mailbox.push(decode_waiting(SqliteFields(row), MailboxState::Deferred)?);
        }
        if mailbox.len() > undecided {
            mailbox.sort_by_key(|event| event.accept_no);
        }
        Ok((mailbox, more))
    }
}

/// Columns as both statements have them.
fn decode_waiting(row: SqliteFields<'_>, kept: MailboxState) -> SqliteResult<MailboxEvent> {
    Ok(MailboxEvent {
        event_id: row.event_id(1)?,
        accept_no: row.accept_no(2)?,
        name: row.id(3)?,
        payload: row.raw(4)?,
        accepted_at: row.time(5)?,
        origin: row.origin(6)?,
        kept,
        attempts: row.small(7)?,
        traceparent: row.opt_text(8)?,
    })
}

/// Remaining capacity of one visit. The first event always fits.
struct MailboxRoom {
    limits: MailboxLimits,
    events: usize,
    bytes: usize,
}

impl MailboxRoom {
    fn of(limits: MailboxLimits) -> Self {
        Self { limits, events: 0, bytes: 0 }
    }

    fn take_if_fits(&mut self, bytes: usize) -> bool {
        let weight = self.bytes.saturating_add(bytes);
        let fits = self.events < self.limits.events && weight <= self.limits.bytes;
        if fits || self.events == 0 {
            self.events += 1;
            self.bytes = weight;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sizes: &[usize], events: usize, bytes: usize) -> usize {
        let mut room = MailboxRoom::of(MailboxLimits { events, bytes });
        sizes.iter().take_while(|size| room.take_if_fits(**size)).count()
    }

    #[test]
    fn mailbox_room_takes_fitting_events() {
        assert_eq!(taken(&[1, 1, 1], 2, 100), 2);
        assert_eq!(taken(&[10, 100, 1], 9, 50), 1);
        assert_eq!(taken(&[10, 10], 9, 20), 2);
    }

    #[test]
    fn mailbox_room_takes_at_least_one() {
        assert_eq!(taken(&[500, 1], 9, 50), 1);
        assert_eq!(taken(&[500], 0, 0), 1);
    }
}
