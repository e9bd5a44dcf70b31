//! The format of a stream entry: three short fields, ids only.
//!
//! All entries have the same fields in the same order, which lets the server store the names once. Unreadable
//! entries (another format, a foreign XADD) must not circulate forever: they are discarded by an
//! acknowledgement, with a warning. The sweeps find the executions they referred to.

use millstream_core::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_core::lane::Lane;
use redis::Value;

use super::reply;
use crate::doorbell::{Bell, Delivery, EntryId, Redelivered};

const KIND: &str = "b";
const TENANT: &str = "t";
const EXECUTION: &str = "e";

/// The parsed entries of a reply.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) deliveries: Vec<Delivery>,
    /// To be acknowledged without processing: unreadable, or deleted while pending.
    pub(super) discarded: Vec<EntryId>,
}

/// A doorbell in the format of scripts and lists: the letter of its kind, then its execution.
pub(super) fn word(bell: &Bell) -> String {
    format!("{}{}", kind(bell), bell.execution().execution)
}

/// Names and values, alternating.
pub(super) fn fields(bell: &Bell) -> [&str; 6] {
    let ExecutionKey { tenant, execution } = bell.execution();
    [KIND, kind(bell), TENANT, tenant.as_str(), EXECUTION, execution.as_str()]
}

impl Entries {
    /// Parses one `[id, fields]` of a reply. Returns its id, or `None` if it is not an entry at all.
    pub(super) fn sort(&mut self, lane: Lane, entry: Value, redelivered: Redelivered) -> Option<String> {
        let mut parts = reply::list(entry)?.into_iter();
        let id = reply::text(&parts.next()?)?;
        let entry = EntryId { lane, id: id.clone() };
        match parts.next().filter(|fields| *fields != Value::Nil) {
            // Deleted (acknowledged elsewhere, trimmed) while it was pending with this consumer.
            None => self.discarded.push(entry),
            Some(fields) => match bell(fields).filter(|bell| bell.lane() == lane) {
                Some(bell) => self.deliveries.push(Delivery { entry, bell, redelivered }),
                None => {
                    tracing::warn!(stream.lane = lane.number(), stream.entry = %id, "unreadable entry dropped");
                    self.discarded.push(entry);
                }
            },
        }
        Some(id)
    }
}

fn kind(bell: &Bell) -> &'static str {
    match bell {
        Bell::Mailbox(_) => "m",
        Bell::Actions(_) => "a",
    }
}

fn bell(fields: Value) -> Option<Bell> {
    let fields = reply::pairs(fields)?;
    let text = |name| reply::text(&reply::field(&fields, name)?);
    let execution = ExecutionKey {
        tenant: TenantId::parse(text(TENANT)?).ok()?,
        execution: ExecutionId::parse(text(EXECUTION)?).ok()?,
    };
    match text(KIND)?.as_str() {
        "m" => Some(Bell::Mailbox(execution)),
        "a" => Some(Bell::Actions(execution)),
        _ => None,
    }
}
