//! The parts of the API: every route belongs to one, and client generators make a module of each.

/// A tag of the OpenAPI document. The name is the first part of most of its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiTag {
    Definitions,
    Executions,
    Events,
    Signals,
    Incidents,
    Tasks,
    Graphs,
    Executors,
    Devices,
    Runs,
    Queues,
    People,
    Items,
    Assignments,
    Tenants,
    Keys,
    System,
}

impl ApiTag {
    /// In the order of the document.
    pub(crate) const ALL: &[Self] = &[
        Self::Definitions,
        Self::Executions,
        Self::Events,
        Self::Signals,
        Self::Incidents,
        Self::Tasks,
        Self::Graphs,
        Self::Executors,
        Self::Devices,
        Self::Runs,
        Self::Queues,
        Self::People,
        Self::Items,
        Self::Assignments,
        Self::Tenants,
        Self::Keys,
        Self::System,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Definitions => "definitions",
            Self::Executions => "executions",
            Self::Events => "events",
            Self::Signals => "signals",
            Self::Incidents => "incidents",
            Self::Tasks => "tasks",
            Self::Graphs => "graphs",
            Self::Executors => "executors",
            Self::Devices => "devices",
            Self::Runs => "runs",
            Self::Queues => "queues",
            Self::People => "people",
            Self::Items => "items",
            Self::Assignments => "assignments",
            Self::Tenants => "tenants",
            Self::Keys => "keys",
            Self::System => "system",
        }
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Definitions => {
                "Workflow definitions. A definition is immutable; a change is the next version of its name."
            }
            Self::Executions => {
                "Executions of definitions: start, read, cancel; their history, actions, timers and live tail."
            }
            Self::Events => "Events for executions. Each is accepted durably and then applied in order.",
            Self::Signals => {
                "Events for the execution that has a correlation; kept until there is one, or until they expire."
            }
            Self::Incidents => {
                "Failures that wait for a decision: retry, skip, fail or cancel, singly or as a group."
            }
            Self::Tasks => "Actions that external workers perform: lease, heartbeat, complete, fail.",
            Self::Graphs => "Graphs of nodes that start when their parents have ended.",
            Self::Executors => "Services that perform the nodes of graphs, and their registrations.",
            Self::Devices => "Devices that perform runs: registration, heartbeats, assignments.",
            Self::Runs => "Work for devices: create, follow, and what the device reports.",
            Self::Queues => "Queues of work for people: configuration, import, statistics.",
            Self::People => "People who work on items, and their skills.",
            Self::Items => "Single pieces of work in a queue.",
            Self::Assignments => "Items assigned to people: next, start, submit, skip; reassign and correct.",
            Self::Tenants => "Quotas and usage of tenants.",
            Self::Keys => "API keys: create, rotate, revoke.",
            Self::System => "Health, workers, metrics, and this document.",
        }
    }
}
