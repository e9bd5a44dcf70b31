//! The format of a stream entry: three short fields, ids only.
//!
//! All entries have the same fields in the same order, which lets the server store the names once. Unreadable
//! entries (another format, a foreign XADD) must not circulate forever: they are discarded by an
//! acknowledgement, with a warning. The sweeps find the executions they referred to.

use millstream_model::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_model::lane::Lane;
use redis::Value;

use super::reply;
use crate::doorbell::{Doorbell, DoorbellDelivery, RedeliveryMark, StreamEntryId};

const KIND: &str = "b";
const TENANT: &str = "t";
const EXECUTION: &str = "e";

/// The parsed entries of a reply.
#[derive(Debug, Default)]
pub(super) struct RedisEntries {
    pub(super) deliveries: Vec<DoorbellDelivery>,
    /// To be acknowledged without processing: unreadable, or deleted while pending.
    pub(super) discarded: Vec<StreamEntryId>,
}

/// A doorbell in the format of scripts and lists: the letter of its kind, then its execution.
pub(super) fn bell_word(bell: &Doorbell) -> String {
    format!("{}{}", kind_letter(bell), bell.execution().execution)
}

/// Names and values, alternating.
pub(super) fn entry_fields(bell: &Doorbell) -> [&str; 6] {
    let ExecutionKey { tenant, execution } = bell.execution();
    [KIND, kind_letter(bell), TENANT, tenant.as_str(), EXECUTION, execution.as_str()]
}

impl RedisEntries {
    /// Parses one `[id, fields]` of a reply. Returns its id, or `None` if it is not an entry at all.
    pub(super) fn parse_entry(
        &mut self,
        lane: Lane,
        entry: Value,
        redelivered: RedeliveryMark,
    ) -> Option<String> {
        let mut parts = reply::as_list(entry)?.into_iter();
        let id = reply::as_text(&parts.next()?)?;
        let entry = StreamEntryId { lane, id: id.clone() };
        match parts.next().filter(|fields| *fields != Value::Nil) {
            // Deleted (acknowledged elsewhere, trimmed) while it was pending with this consumer.
            None => self.discarded.push(entry),
            Some(fields) => match parse_bell(fields).filter(|bell| bell.lane() == lane) {
                Some(bell) => self.deliveries.push(DoorbellDelivery { entry, bell, redelivered }),
                None => {
                    tracing::warn!(stream.lane = lane.number(), stream.entry = %id, "unreadable entry dropped");
                    self.discarded.push(entry);
                }
            },
        }
        Some(id)
    }
}

fn kind_letter(bell: &Doorbell) -> &'static str {
    match bell {
        Doorbell::Mailbox(_) => "m",
        Doorbell::Actions(_) => "a",
    }
}

fn parse_bell(fields: Value) -> Option<Doorbell> {
    let fields = reply::as_pairs(fields)?;
    let text = |name| reply::as_text(&reply::record_field(&fields, name)?);
    let execution = ExecutionKey {
        tenant: TenantId::parse(text(TENANT)?).ok()?,
        execution: ExecutionId::parse(text(EXECUTION)?).ok()?,
    };
    match text(KIND)?.as_str() {
        "m" => Some(Doorbell::Mailbox(execution)),
        "a" => Some(Doorbell::Actions(execution)),
        _ => None,
    }
}
