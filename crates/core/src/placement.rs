//! Who may perform an action: every action stands in a queue, and a worker says which queues it serves.
//!
//! The engine's own kinds stand in one queue that every worker serves. `call: NAME` stands in a queue of
//! its function, served by the workers that brought the function along. `task` stands in a queue of its
//! tenant, type and labels, served by whoever asks for the type and has all the labels. A node of a graph
//! stands in a queue of its tenant, role and labels, served by a worker as far as it knows of executors with
//! room.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::id::{Name, TenantId};

/// The queue of an action, as the store keeps it. Texts compare like queues.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue(Arc<str>);

/// What a queue is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueParts {
    Engine,
    Call { function: Name },
    Task { tenant: TenantId, kind: Name, labels: BTreeSet<Name> },
    Node { tenant: TenantId, role: String, labels: BTreeSet<Name> },
}

impl Queue {
    /// What all queues of nodes begin with.
    pub const NODES: &'static str = "node:";
    const CALL: &'static str = "call:";
    /// Of a queue of nodes. An index takes no more than 2,700 bytes.
    const LONGEST: usize = 1024;
    const TASK: &'static str = "task:";

    /// Of the kinds that every worker performs.
    pub fn engine() -> Self {
        Self("".into())
    }

    pub fn call(function: &Name) -> Self {
        Self(format!("{}{function}", Self::CALL).into())
    }

    pub fn task(tenant: &TenantId, kind: &Name, labels: &BTreeSet<Name>) -> Self {
        Self(format!("{}{tenant}/{kind}/{}", Self::TASK, joined(labels)).into())
    }

    /// A role is any text, and comes last; no store takes a NUL. What would be too long to be looked up by
    /// stands in the engine's queue.
    pub fn node(tenant: &TenantId, role: &str, labels: &BTreeSet<Name>) -> Self {
        let role = role.replace('%', "%25").replace('\0', "%00");
        let text = format!("{}{tenant}/{}/{role}", Self::NODES, joined(labels));
        if text.len() > Self::LONGEST { Self::engine() } else { Self(text.into()) }
    }

    /// What all task queues of a tenant begin with.
    pub fn tasks_of(tenant: &TenantId) -> String {
        format!("{}{tenant}/", Self::TASK)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `None` for a text that no queue has.
    pub fn parse(text: &str) -> Option<Self> {
        let queue = Self(text.into());
        queue.parts().map(|_| queue)
    }

    pub fn parts(&self) -> Option<QueueParts> {
        if self.0.is_empty() {
            return Some(QueueParts::Engine);
        }
        if let Some(function) = self.0.strip_prefix(Self::CALL) {
            return Name::parse(function).ok().map(|function| QueueParts::Call { function });
        }
        if let Some(node) = self.0.strip_prefix(Self::NODES) {
            let mut parts = node.splitn(3, '/');
            let tenant = TenantId::parse(parts.next()?).ok()?;
            let labels = split(parts.next()?)?;
            return Some(QueueParts::Node { tenant, role: unescaped(parts.next()?), labels });
        }
        let mut parts = self.0.strip_prefix(Self::TASK)?.splitn(3, '/');
        let tenant = TenantId::parse(parts.next()?).ok()?;
        let kind = Name::parse(parts.next()?).ok()?;
        Some(QueueParts::Task { tenant, kind, labels: split(parts.next()?)? })
    }

    /// Whether it is leased over HTTP, by somebody whom the engine does not know.
    pub fn is_external(&self) -> bool {
        self.0.starts_with(Self::TASK)
    }

    /// Whether executors perform what stands in it.
    pub fn is_of_nodes(&self) -> bool {
        self.0.starts_with(Self::NODES)
    }
}

fn joined(labels: &BTreeSet<Name>) -> String {
    labels.iter().map(Name::as_str).collect::<Vec<_>>().join(",")
}

fn unescaped(role: &str) -> String {
    role.replace("%00", "\0").replace("%25", "%")
}

fn split(labels: &str) -> Option<BTreeSet<Name>> {
    labels.split(',').filter(|label| !label.is_empty()).map(|label| Name::parse(label).ok()).collect()
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an external worker can do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    pub tenant: TenantId,
    pub kinds: BTreeSet<Name>,
    pub labels: BTreeSet<Name>,
}

/// Why a worker cannot take a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    Kind,
    /// It has the type; these labels are missing.
    Labels(BTreeSet<Name>),
}

impl Capability {
    /// Whether the worker may take what stands in the queue.
    pub fn serves(&self, queue: &Queue) -> bool {
        match queue.parts() {
            Some(QueueParts::Task { tenant, kind, labels }) => {
                tenant == self.tenant && self.fits(&kind, &labels).is_ok()
            }
            Some(QueueParts::Engine | QueueParts::Call { .. } | QueueParts::Node { .. }) | None => false,
        }
    }

    pub fn fits(&self, kind: &Name, labels: &BTreeSet<Name>) -> Result<(), Unfit> {
        if !self.kinds.contains(kind) {
            return Err(Unfit::Kind);
        }
        let missing: BTreeSet<Name> = labels.difference(&self.labels).cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(Unfit::Labels(missing)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> BTreeSet<Name> {
        words.iter().map(|word| Name::parse(word).unwrap()).collect()
    }

    fn name(word: &str) -> Name {
        Name::parse(word).unwrap()
    }

    fn worker(kinds: &[&str], labels: &[&str]) -> Capability {
        Capability { tenant: TenantId::default_tenant(), kinds: names(kinds), labels: names(labels) }
    }

    #[test]
    fn a_queue_is_read_back_as_it_was_made() {
        let tenant = TenantId::default_tenant();
        let parts = |queue: &Queue| Queue::parse(queue.as_str()).unwrap().parts().unwrap();
        assert_eq!(parts(&Queue::engine()), QueueParts::Engine);
        assert_eq!(parts(&Queue::call(&name("charge"))), QueueParts::Call { function: name("charge") });
        for labels in [names(&[]), names(&["gpu"]), names(&["big", "gpu"])] {
            let queue = Queue::task(&tenant, &name("resize"), &labels);
            let kind = name("resize");
            assert_eq!(parts(&queue), QueueParts::Task { tenant: tenant.clone(), kind, labels });
            assert!(queue.as_str().starts_with(&Queue::tasks_of(&tenant)));
        }
        for role in ["", "writer", "a/b, c", "100%00\0"] {
            for labels in [names(&[]), names(&["big", "gpu"])] {
                let queue = Queue::node(&tenant, role, &labels);
                let role = role.to_owned();
                assert_eq!(parts(&queue), QueueParts::Node { tenant: tenant.clone(), role, labels });
                assert!(queue.is_of_nodes() && !queue.is_external());
            }
        }
        assert_eq!(Queue::node(&tenant, &"x".repeat(1_024), &names(&[])), Queue::engine());
        for nonsense in
            ["x", "node:a", "node:a/X/", "task:", "task:a", "task:a/b", "task:A/b/", "call:", "task:a/b/X"]
        {
            assert_eq!(Queue::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_worker_needs_the_type_and_every_label() {
        let queue = Queue::task(&TenantId::default_tenant(), &name("resize"), &names(&["gpu"]));
        assert!(worker(&["resize"], &["big", "gpu"]).serves(&queue));
        assert!(!worker(&["resize"], &["big"]).serves(&queue));
        assert!(!worker(&["crop"], &["gpu"]).serves(&queue));
        let missing = worker(&["resize"], &[]).fits(&name("resize"), &names(&["gpu"]));
        assert_eq!(missing, Err(Unfit::Labels(names(&["gpu"]))));
    }

    #[test]
    fn a_worker_of_another_tenant_gets_nothing() {
        let queue = Queue::task(&TenantId::parse("other").unwrap(), &name("resize"), &names(&[]));
        assert!(!worker(&["resize"], &[]).serves(&queue));
    }
}
