//! Action queues: every action waits in a queue, and a worker declares which queues it serves.
//!
//! The built-in action kinds have one queue per tenant, and every worker serves all of them. `call: NAME` has
//! one queue per tenant and function, served by the workers that registered the function. Queues are per
//! tenant because leasing is a round robin over queues: the backlog of one tenant does not block the others.
//! (Earlier releases used one shared queue for all tenants, and one per function; these queues are still
//! served.) `task` has one queue per tenant, type and labels, served by each external worker that requests
//! the type and has all the labels. A graph node waits in a queue per tenant, role and labels, served by the
//! workers that know an executor with free capacity.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::id::{Name, TenantId};

/// The queue of an action, in its stored text form. The order of the texts is the order of the queues.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionQueue(Arc<str>);

/// The parts of a queue name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueParts {
    /// Built-in kinds. Without a tenant: of all tenants.
    Engine {
        tenant: Option<TenantId>,
    },
    Call {
        tenant: Option<TenantId>,
        function: Name,
    },
    Task {
        tenant: TenantId,
        kind: Name,
        labels: BTreeSet<Name>,
    },
    Node {
        tenant: TenantId,
        role: String,
        labels: BTreeSet<Name>,
    },
}

impl ActionQueue {
    /// Prefix of all node queues.
    pub const NODES: &'static str = "node:";
    /// Prefix of all function queues.
    pub const CALLS: &'static str = "call:";
    /// Prefix of the engine's queues per tenant.
    pub const ENGINES: &'static str = "engine:";
    /// Longest name of a node queue. An index entry is limited to 2,700 bytes.
    const LONGEST: usize = 1024;
    const TASK: &'static str = "task:";

    /// The queue of built-in kinds for all tenants. In the list that a worker serves it matches the queues of
    /// every tenant.
    pub fn engine_for_all() -> Self {
        Self("".into())
    }

    /// The queue of built-in kinds of one tenant.
    pub fn engine_of(tenant: &TenantId) -> Self {
        Self(format!("{}{tenant}", Self::ENGINES).into())
    }

    /// The queue of a function for all tenants. In the list that a worker serves it matches the queues of
    /// every tenant.
    pub fn call_for_all(function: &Name) -> Self {
        Self(format!("{}{function}", Self::CALLS).into())
    }

    pub fn call_of(tenant: &TenantId, function: &Name) -> Self {
        Self(format!("{}{tenant}/{function}", Self::CALLS).into())
    }

    pub fn of_task(tenant: &TenantId, kind: &Name, labels: &BTreeSet<Name>) -> Self {
        Self(format!("{}{tenant}/{kind}/{}", Self::TASK, join_labels(labels)).into())
    }

    /// A role is any text and comes last; a NUL is escaped, because no store accepts it. A name that would be
    /// too long for the index falls back to the engine's queue of the tenant.
    pub fn of_node(tenant: &TenantId, role: &str, labels: &BTreeSet<Name>) -> Self {
        let role = role.replace('%', "%25").replace('\0', "%00");
        let text = format!("{}{tenant}/{}/{role}", Self::NODES, join_labels(labels));
        if text.len() > Self::LONGEST { Self::engine_of(tenant) } else { Self(text.into()) }
    }

    /// Prefix of all task queues of a tenant.
    pub fn tasks_of(tenant: &TenantId) -> String {
        format!("{}{tenant}/", Self::TASK)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `None` for a text that is not a queue name.
    pub fn parse(text: &str) -> Option<Self> {
        let queue = Self(text.into());
        queue.parts().map(|_| queue)
    }

    pub fn parts(&self) -> Option<QueueParts> {
        if self.0.is_empty() {
            return Some(QueueParts::Engine { tenant: None });
        }
        if let Some(tenant) = self.0.strip_prefix(Self::ENGINES) {
            return Some(QueueParts::Engine { tenant: Some(TenantId::parse(tenant).ok()?) });
        }
        if let Some(call) = self.0.strip_prefix(Self::CALLS) {
            let (tenant, function) = match call.split_once('/') {
                Some((tenant, function)) => (Some(TenantId::parse(tenant).ok()?), function),
                None => (None, call),
            };
            return Some(QueueParts::Call { tenant, function: Name::parse(function).ok()? });
        }
        if let Some(node) = self.0.strip_prefix(Self::NODES) {
            let mut parts = node.splitn(3, '/');
            let tenant = TenantId::parse(parts.next()?).ok()?;
            let labels = split_labels(parts.next()?)?;
            return Some(QueueParts::Node { tenant, role: unescape_role(parts.next()?), labels });
        }
        let mut parts = self.0.strip_prefix(Self::TASK)?.splitn(3, '/');
        let tenant = TenantId::parse(parts.next()?).ok()?;
        let kind = Name::parse(parts.next()?).ok()?;
        Some(QueueParts::Task { tenant, kind, labels: split_labels(parts.next()?)? })
    }

    /// Whether it is a queue of the kinds that every worker performs.
    pub fn is_of_the_engine(&self) -> bool {
        self.0.is_empty() || self.0.starts_with(Self::ENGINES)
    }

    /// The queue for all tenants that matches this one in the list that a worker serves; none for tasks and
    /// nodes.
    pub fn for_all_tenants(&self) -> Option<Self> {
        if self.is_of_the_engine() {
            return Some(Self::engine_for_all());
        }
        let call = self.0.strip_prefix(Self::CALLS)?;
        let function = call.split_once('/').map_or(call, |(_, function)| function);
        Some(Self(format!("{}{function}", Self::CALLS).into()))
    }

    /// The queue of one tenant, for a queue of all tenants.
    pub fn of_tenant(&self, tenant: &TenantId) -> Option<Self> {
        match self.parts()? {
            QueueParts::Engine { tenant: None } => Some(Self::engine_of(tenant)),
            QueueParts::Call { tenant: None, function } => Some(Self::call_of(tenant, &function)),
            QueueParts::Engine { tenant: Some(_) }
            | QueueParts::Call { tenant: Some(_), .. }
            | QueueParts::Task { .. }
            | QueueParts::Node { .. } => None,
        }
    }

    /// Whether external workers lease it over HTTP.
    pub fn is_external(&self) -> bool {
        self.0.starts_with(Self::TASK)
    }

    /// Whether executors perform its actions.
    pub fn is_of_nodes(&self) -> bool {
        self.0.starts_with(Self::NODES)
    }
}

fn join_labels(labels: &BTreeSet<Name>) -> String {
    labels.iter().map(Name::as_str).collect::<Vec<_>>().join(",")
}

fn unescape_role(role: &str) -> String {
    role.replace("%00", "\0").replace("%25", "%")
}

fn split_labels(labels: &str) -> Option<BTreeSet<Name>> {
    labels.split(',').filter(|label| !label.is_empty()).map(|label| Name::parse(label).ok()).collect()
}

impl fmt::Display for ActionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Task types and labels of an external worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerCapability {
    pub tenant: TenantId,
    pub kinds: BTreeSet<Name>,
    pub labels: BTreeSet<Name>,
}

/// Why a worker cannot take a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskMismatch {
    Kind,
    /// It has the type; these labels are missing.
    Labels(BTreeSet<Name>),
}

impl WorkerCapability {
    /// Whether the worker may lease actions of the queue.
    pub fn serves_queue(&self, queue: &ActionQueue) -> bool {
        match queue.parts() {
            Some(QueueParts::Task { tenant, kind, labels }) => {
                tenant == self.tenant && self.check_fit(&kind, &labels).is_ok()
            }
            Some(QueueParts::Engine { .. } | QueueParts::Call { .. } | QueueParts::Node { .. }) | None => {
                false
            }
        }
    }

    pub fn check_fit(&self, kind: &Name, labels: &BTreeSet<Name>) -> Result<(), TaskMismatch> {
        if !self.kinds.contains(kind) {
            return Err(TaskMismatch::Kind);
        }
        let missing: BTreeSet<Name> = labels.difference(&self.labels).cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(TaskMismatch::Labels(missing)) }
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

    fn worker(kinds: &[&str], labels: &[&str]) -> WorkerCapability {
        WorkerCapability { tenant: TenantId::default_tenant(), kinds: names(kinds), labels: names(labels) }
    }

    #[test]
    fn action_queue_parses_back() {
        let tenant = TenantId::default_tenant();
        let parts = |queue: &ActionQueue| ActionQueue::parse(queue.as_str()).unwrap().parts().unwrap();
        let function = name("charge");
        for (all, one, tenant) in [
            (ActionQueue::engine_for_all(), ActionQueue::engine_for_all(), None),
            (ActionQueue::engine_for_all(), ActionQueue::engine_of(&tenant), Some(tenant.clone())),
        ] {
            assert_eq!(one.for_all_tenants(), Some(all));
            assert_eq!(parts(&one), QueueParts::Engine { tenant });
        }
        for (one, tenant) in [
            (ActionQueue::call_for_all(&function), None),
            (ActionQueue::call_of(&tenant, &function), Some(tenant.clone())),
        ] {
            assert_eq!(one.for_all_tenants(), Some(ActionQueue::call_for_all(&function)));
            assert_eq!(parts(&one), QueueParts::Call { tenant, function: function.clone() });
        }
        assert_eq!(ActionQueue::engine_for_all().of_tenant(&tenant), Some(ActionQueue::engine_of(&tenant)));
        assert_eq!(
            ActionQueue::call_for_all(&function).of_tenant(&tenant),
            Some(ActionQueue::call_of(&tenant, &function))
        );
        assert_eq!(ActionQueue::engine_of(&tenant).of_tenant(&tenant), None);
        for labels in [names(&[]), names(&["gpu"]), names(&["big", "gpu"])] {
            let queue = ActionQueue::of_task(&tenant, &name("resize"), &labels);
            let kind = name("resize");
            assert_eq!(parts(&queue), QueueParts::Task { tenant: tenant.clone(), kind, labels });
            assert!(queue.as_str().starts_with(&ActionQueue::tasks_of(&tenant)));
        }
        for role in ["", "writer", "a/b, c", "100%00\0"] {
            for labels in [names(&[]), names(&["big", "gpu"])] {
                let queue = ActionQueue::of_node(&tenant, role, &labels);
                let role = role.to_owned();
                assert_eq!(parts(&queue), QueueParts::Node { tenant: tenant.clone(), role, labels });
                assert!(queue.is_of_nodes() && !queue.is_external());
            }
        }
        assert_eq!(
            ActionQueue::of_node(&tenant, &"x".repeat(1_024), &names(&[])),
            ActionQueue::engine_of(&tenant)
        );
        for nonsense in [
            "x",
            "engine:",
            "engine:A",
            "call:a/",
            "call:A/b",
            "call:a/b/c",
            "node:a",
            "node:a/X/",
            "task:",
            "task:a",
            "task:a/b",
            "task:A/b/",
            "call:",
            "task:a/b/X",
        ] {
            assert_eq!(ActionQueue::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn worker_needs_type_and_all_labels() {
        let queue = ActionQueue::of_task(&TenantId::default_tenant(), &name("resize"), &names(&["gpu"]));
        assert!(worker(&["resize"], &["big", "gpu"]).serves_queue(&queue));
        assert!(!worker(&["resize"], &["big"]).serves_queue(&queue));
        assert!(!worker(&["crop"], &["gpu"]).serves_queue(&queue));
        let missing = worker(&["resize"], &[]).check_fit(&name("resize"), &names(&["gpu"]));
        assert_eq!(missing, Err(TaskMismatch::Labels(names(&["gpu"]))));
    }

    #[test]
    fn worker_serves_own_tenant_only() {
        let queue = ActionQueue::of_task(&TenantId::parse("other").unwrap(), &name("resize"), &names(&[]));
        assert!(!worker(&["resize"], &[]).serves_queue(&queue));
    }
}
