//! Newtypes for ids, names and sequence numbers, so that the compiler keeps them apart.
//!
//! Text ids are validated once, where they enter; inside the engine they are cheap to clone. Order
//! between events never comes from an id: see [`AcceptNo`] and [`Seq`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text is not a valid id or name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error("must not be empty")]
    Empty,
    #[error("is {actual} characters long, at most {limit} are allowed")]
    TooLong { actual: usize, limit: usize },
    #[error("may contain only {allowed}")]
    Charset { allowed: &'static str },
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $limit:expr, $allowed:expr, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub const MAX_LEN: usize = $limit;

            pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                let check: fn(&str) -> bool = $check;
                if text.is_empty() {
                    return Err(InvalidId::Empty);
                }
                if text.len() > $limit {
                    return Err(InvalidId::TooLong { actual: text.chars().count(), limit: $limit });
                }
                if !check(text) {
                    return Err(InvalidId::Charset { allowed: $allowed });
                }
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
}

fn is_id(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-'))
}

text_id!(
    /// A name in a definition: of a definition, state, event or action.
    Name, 128, "a-z, 0-9, '_', '.', '-' and must start with a-z", is_name
);
text_id!(
    /// The owner of the data. It always comes from the caller's API key.
    TenantId, 64, "a-z, 0-9, '_', '.', '-' and must start with a-z", is_name
);
text_id!(
    /// One run of a definition, unique within its tenant. Chosen by the caller or a UUIDv7.
    ExecutionId, 128, "A-Z, a-z, 0-9, '_', '.', ':' and '-'", is_id
);
text_id!(
    /// A device run (work for devices), unique within its tenant. Chosen by the caller or generated.
    RunId, 128, "A-Z, a-z, 0-9, '_', '.', ':' and '-'", is_id
);
text_id!(
    /// A device that takes work, unique within its tenant. Chosen by the device.
    DeviceId, 128, "A-Z, a-z, 0-9, '_', '.', ':' and '-'", is_id
);
text_id!(
    /// One worker process or loop: `hostname-pid-random`. New at every start.
    WorkerId, 160, "A-Z, a-z, 0-9, '_', '.', ':' and '-'", is_id
);
text_id!(
    /// A work item for people, unique within its tenant. Chosen by the caller that imports it.
    ItemId, 128, "A-Z, a-z, 0-9, '_', '.', ':' and '-'", is_id
);
text_id!(
    /// A person who works on items, by the caller's id for them.
    PersonId, 128, "A-Z, a-z, 0-9, '_', '.', ':' and '-'", is_id
);

impl TenantId {
    /// The tenant of all requests while no API key exists.
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}

impl WorkerId {
    /// Placeholder worker: marks outcomes that another write settles without a lease.
    pub fn no_worker() -> Self {
        Self("nobody".into())
    }
}

impl Name {
    /// Event names that only the engine may use start with this.
    pub const RESERVED_PREFIX: &'static str = "millstream.";

    /// A reserved name of the engine. It is not checked.
    pub fn reserved_name(name: &'static str) -> Self {
        Self(name.into())
    }

    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(Self::RESERVED_PREFIX)
    }

    /// `millstream.start`: creation, always seq 1.
    pub fn start_event() -> Self {
        Self("millstream.start".into())
    }

    /// `millstream.cancel`: an operator ends the execution.
    pub fn cancel_event() -> Self {
        Self("millstream.cancel".into())
    }

    /// `millstream.fail`: an operator ends the execution as failed.
    pub fn fail_event() -> Self {
        Self("millstream.fail".into())
    }

    /// Whether it ends an execution whatever state it is in, paused or not.
    pub fn is_end(&self) -> bool {
        matches!(self.as_str(), "millstream.cancel" | "millstream.fail")
    }

    /// `millstream.return`: the action by which a child reports its outcome to its parent.
    pub fn return_to_parent() -> Self {
        Self("millstream.return".into())
    }

    /// `millstream.close_children`: the action by which a parent that has ended closes its children.
    pub fn close_children() -> Self {
        Self("millstream.close_children".into())
    }

    /// `millstream.timeout`: the execution's own timeout has passed.
    pub fn timeout_event() -> Self {
        Self("millstream.timeout".into())
    }

    /// The definition of every graph execution. It is not stored: the graph is in its log.
    pub fn graph() -> Self {
        Self("millstream.graph".into())
    }

    /// `millstream.begin`: follows the start of a graph and dispatches its first nodes.
    pub fn begin() -> Self {
        Self("millstream.begin".into())
    }

    /// `millstream.node`: an attempt at a node has ended.
    pub fn node_outcome() -> Self {
        Self("millstream.node".into())
    }

    /// `millstream.edit`: a request to change the graph.
    pub fn edit() -> Self {
        Self("millstream.edit".into())
    }
}

/// An accepted event. UUIDv7 for locality in indexes, never for order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub Uuid);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A failure that an operator has to resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IncidentId(pub Uuid);

impl fmt::Display for IncidentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One assignment of an item to a person. UUIDv7 for locality in indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AssignmentId(pub Uuid);

impl fmt::Display for AssignmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The full key of an item: tenant and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemKey {
    pub tenant: TenantId,
    pub item: ItemId,
}

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.item)
    }
}

/// The position of an event in the total order of acceptance: one database sequence for all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AcceptNo(pub i64);

/// The position of a transition in its execution: 1, 2, 3 … without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl Seq {
    /// Creation.
    pub const FIRST: Seq = Seq(1);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing token of an action's lease: grows by one with every lease, never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

impl Epoch {
    /// Of an action that has never been leased.
    pub const NONE: Epoch = Epoch(0);
    /// Of the first lease.
    pub const FIRST: Epoch = Epoch(1);
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The full key of an execution. Every key in the store begins with the tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutionKey {
    pub tenant: TenantId,
    pub execution: ExecutionId,
}

impl fmt::Display for ExecutionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.execution)
    }
}

/// The full key of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    pub tenant: TenantId,
    pub run: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.run)
    }
}

/// The full key of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceKey {
    pub tenant: TenantId,
    pub device: DeviceId,
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.device)
    }
}

/// One version of a definition of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DefinitionRef {
    pub name: Name,
    pub version: i32,
}

impl fmt::Display for DefinitionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// The deterministic idempotency key of an action: the same on every attempt and every worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionKey {
    pub execution: ExecutionKey,
    pub seq: Seq,
    pub action: Name,
}

impl fmt::Display for ActionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.execution, self.seq, self.action)
    }
}

impl ActionKey {
    /// The idempotency key that attempts send: the same on every attempt at the same input. An input that an
    /// operator has edited is different work and has a different key.
    pub fn with_revision(&self, revision: i32) -> String {
        if revision == 0 { self.to_string() } else { format!("{self}~{revision}") }
    }

    /// Parses the key and the revision. Refuses the key of another tenant, because the text comes from an
    /// external caller.
    pub fn parse_within(tenant: &TenantId, text: &str) -> Option<(Self, i32)> {
        let rest = text.strip_prefix(tenant.as_str())?.strip_prefix('/')?;
        let mut parts = rest.split('/');
        let (execution, seq, last) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let (action, revision) = match last.split_once('~') {
            Some((action, revision)) => (action, revision.parse().ok().filter(|number| *number > 0)?),
            None => (last, 0),
        };
        let execution =
            ExecutionKey { tenant: tenant.clone(), execution: ExecutionId::parse(execution).ok()? };
        let seq = Seq(seq.parse().ok().filter(|seq| *seq > 0)?);
        Some((Self { execution, seq, action: Name::parse(action).ok()? }, revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_key_parses_back() {
        let tenant = TenantId::default_tenant();
        let execution =
            ExecutionKey { tenant: tenant.clone(), execution: ExecutionId::parse("o-1").unwrap() };
        let key = ActionKey { execution, seq: Seq(4), action: Name::parse("charge").unwrap() };
        for revision in [0, 1, 12] {
            let text = key.with_revision(revision);
            assert_eq!(ActionKey::parse_within(&tenant, &text), Some((key.clone(), revision)), "{text}");
        }
        for text in [
            "default/o-1/4",
            "default/o-1/4/charge/x",
            "other/o-1/4/charge",
            "default/o-1/0/charge",
            "default/o-1/4/charge~0",
            "default/o-1/4/charge~x",
            "",
        ] {
            assert_eq!(ActionKey::parse_within(&tenant, text), None, "{text}");
        }
    }
}
