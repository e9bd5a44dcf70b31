//! Names of the gauges of an [`EventBacklog`](crate::views::EventBacklog).
//!
//! Ingresses and workers both export them, and the benchmark reads them: the list is shared, so that a gauge
//! has the same name in both roles. Recording is up to the roles.

pub const UNDECIDED_EVENTS: &str = "millstream_undecided_events";
pub const OLDEST_UNDECIDED_SECONDS: &str = "millstream_oldest_undecided_seconds";
pub const DEAD_EVENTS: &str = "millstream_dead_events";
pub const PAUSED_EXECUTIONS: &str = "millstream_paused_executions";
pub const OPEN_INCIDENTS: &str = "millstream_open_incidents";
pub const OPEN_ACTIONS: &str = "millstream_open_actions";
