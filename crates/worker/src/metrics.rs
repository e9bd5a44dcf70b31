//! Every metric of the worker, described in one place.
//!
//! Names are constants, so that a misspelt name does not compile. The names of gauges that the ingress exports
//! too are in [`backlog_gauges`]. The app installs the recorder; without one, recording costs nothing.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use millstream_store::backlog_gauges;

pub(crate) const UP: &str = "millstream_worker_up";
pub(crate) const DELIVERIES: &str = "millstream_worker_deliveries_total";
pub(crate) const HELD: &str = "millstream_worker_held_doorbells";
pub(crate) const BATCH_EXECUTIONS: &str = "millstream_worker_batch_executions";
pub(crate) const BATCH_EVENTS: &str = "millstream_worker_batch_events";
pub(crate) const LOAD_SECONDS: &str = "millstream_worker_load_seconds";
pub(crate) const COMMIT_SECONDS: &str = "millstream_worker_commit_seconds";
pub(crate) const SETTLE_SECONDS: &str = "millstream_worker_settle_seconds";
pub(crate) const DECIDED: &str = "millstream_worker_decided_total";
pub(crate) const LOCK_BUSY: &str = "millstream_worker_lock_busy_total";
pub(crate) const CONFLICTS: &str = "millstream_worker_conflicts_total";
pub(crate) const DEAD: &str = "millstream_worker_dead_total";
pub(crate) const PAUSED: &str = "millstream_worker_paused_total";
pub(crate) const RECLAIMED: &str = "millstream_worker_reclaimed_total";
pub(crate) const SWEPT: &str = "millstream_worker_swept_total";
pub(crate) const POLLED: &str = "millstream_worker_polled_total";
pub(crate) const TIMERS_FIRED: &str = "millstream_worker_timers_fired_total";
pub(crate) const IN_FLIGHT: &str = "millstream_worker_actions_in_flight";
pub(crate) const ATTEMPTS: &str = "millstream_worker_action_attempts_total";
pub(crate) const ATTEMPT_SECONDS: &str = "millstream_worker_action_attempt_seconds";
pub(crate) const RETRIES: &str = "millstream_worker_action_retries_total";
pub(crate) const LEASES_LOST: &str = "millstream_worker_leases_lost_total";
pub(crate) const PURGED: &str = "millstream_worker_purged_total";
pub(crate) const NODE_SECONDS: &str = "millstream_worker_node_seconds";
pub(crate) const NODES_ENDED: &str = "millstream_worker_nodes_ended_total";
pub(crate) const NODES_RETRIED: &str = "millstream_worker_nodes_retried_total";
pub(crate) const GRAPH_SECONDS: &str = "millstream_worker_graph_seconds";
pub(crate) const GRAPHS_ENDED: &str = "millstream_worker_graphs_ended_total";
pub(crate) const ACTIVE_GRAPHS: &str = "millstream_active_graphs";
pub(crate) const NODES: &str = "millstream_graph_nodes";
/// The ingress counts under the same name.
pub(crate) const PEOPLE: &str = "millstream_people_total";
pub(crate) const ITEMS_DUE: &str = "millstream_worker_items_due_total";
pub(crate) const PUBLISHED: &str = "millstream_outbound_published_total";
pub(crate) const PUBLISH_FAILURES: &str = "millstream_outbound_failures_total";
pub(crate) const PUBLISH_LAG_ENTRIES: &str = "millstream_outbound_lag_entries";
pub(crate) const PUBLISH_LAG_GRAPHS: &str = "millstream_outbound_lag_graphs";
pub(crate) const PUBLISH_LAG_NOTICES: &str = "millstream_outbound_lag_notices";
pub(crate) const PUBLISH_LAG_SECONDS: &str = "millstream_outbound_lag_seconds";
pub(crate) const RUNS_CREATED: &str = "millstream_runs_created_total";
pub(crate) const RUN_ASSIGNMENTS: &str = "millstream_run_assignments_total";
pub(crate) const RUN_REASSIGNMENTS: &str = "millstream_run_reassignments_total";
pub(crate) const RUNS_ENDED: &str = "millstream_runs_ended_total";
pub(crate) const RUN_CLAIM_SECONDS: &str = "millstream_run_claim_seconds";
pub(crate) const QUEUE_ASSIGNMENTS: &str = "millstream_queue_assignments";
pub(crate) const QUEUES: &str = "millstream_queues";
pub(crate) const QUEUE_ITEMS: &str = "millstream_queue_items";
pub(crate) const QUEUE_COMPLETION: &str = "millstream_queue_completion_ratio";
pub(crate) const QUEUE_SKIPS: &str = "millstream_queue_skip_ratio";
pub(crate) const QUEUE_EXPIRIES: &str = "millstream_queue_expiry_ratio";
pub(crate) const QUEUE_SECONDS: &str = "millstream_queue_average_seconds_to_complete";
pub(crate) const QUEUE_ATTEMPTS: &str = "millstream_queue_average_attempts";
pub(crate) const DEVICES: &str = "millstream_devices";
pub(crate) const DEVICES_REACHABLE: &str = "millstream_devices_reachable";
pub(crate) const RUN_SEATS: &str = "millstream_run_seats";
pub(crate) const LANE_PENDING: &str = "millstream_stream_pending";
pub(crate) const LANE_LAG: &str = "millstream_stream_lag";
pub(crate) const LANE_OVERFLOW: &str = "millstream_stream_overflow";

/// Registers the descriptions with the recorder. Idempotent.
pub(crate) fn describe_metrics() {
    describe_gauge!(UP, "1 while the worker runs");
    describe_counter!(DELIVERIES, "Doorbells read");
    describe_gauge!(HELD, "Doorbells read and not yet acknowledged");
    describe_histogram!(BATCH_EXECUTIONS, "Executions per visit");
    describe_histogram!(BATCH_EVENTS, "Events decided per commit");
    describe_histogram!(LOAD_SECONDS, Unit::Seconds, "Loading a batch of executions");
    describe_histogram!(COMMIT_SECONDS, Unit::Seconds, "Committing a batch of executions");
    describe_histogram!(SETTLE_SECONDS, Unit::Seconds, "Settling a batch of actions");
    describe_counter!(DECIDED, "Events decided, by verdict");
    describe_counter!(LOCK_BUSY, "Executions that another worker had locked");
    describe_counter!(CONFLICTS, "Commits rejected because of a concurrent commit by another worker");
    describe_counter!(DEAD, "Events quarantined as dead by the poison rule");
    describe_counter!(PAUSED, "Executions paused because they are unreadable");
    describe_counter!(RECLAIMED, "Doorbells taken over from other consumers");
    describe_counter!(SWEPT, "Executions whose doorbell was published again, by sweep");
    describe_counter!(POLLED, "Executions found in the store while the stream was down");
    describe_counter!(TIMERS_FIRED, "Timers turned into events");
    describe_gauge!(IN_FLIGHT, "Actions leased by the worker");
    describe_counter!(ATTEMPTS, "Attempts at actions, by outcome");
    describe_histogram!(ATTEMPT_SECONDS, Unit::Seconds, "One attempt at an action, by kind");
    describe_counter!(RETRIES, "Attempts that will be repeated");
    describe_counter!(LEASES_LOST, "Action leases lost to another worker while held");
    describe_counter!(PURGED, "Rows removed by retention, by kind");
    describe_gauge!(backlog_gauges::UNDECIDED_EVENTS, "Undecided events");
    describe_gauge!(
        backlog_gauges::OLDEST_UNDECIDED_SECONDS,
        Unit::Seconds,
        "Age of the oldest undecided event"
    );
    describe_gauge!(backlog_gauges::DEAD_EVENTS, "Dead events that were not retried");
    describe_gauge!(backlog_gauges::PAUSED_EXECUTIONS, "Executions that are paused");
    describe_gauge!(backlog_gauges::OPEN_INCIDENTS, "Open incidents");
    describe_gauge!(backlog_gauges::OPEN_ACTIONS, "Open actions");
    describe_histogram!(NODE_SECONDS, Unit::Seconds, "Duration of one executor call, by outcome");
    describe_counter!(NODES_ENDED, "Ended nodes, by status");
    describe_counter!(NODES_RETRIED, "Failed node attempts that are retried");
    describe_histogram!(
        GRAPH_SECONDS,
        Unit::Seconds,
        "Time from the creation of a graph to its end, by status"
    );
    describe_counter!(GRAPHS_ENDED, "Ended graphs, by status");
    describe_gauge!(ACTIVE_GRAPHS, "Active graphs");
    describe_gauge!(NODES, "Nodes of active graphs, by status");
    describe_counter!(PEOPLE, "Changes of people items, by log entry");
    describe_counter!(ITEMS_DUE, "People work past its deadline, by kind: assignment or item");
    describe_counter!(PUBLISHED, "Outbound events accepted by a sink");
    describe_counter!(PUBLISH_FAILURES, "Batches of outbound events that a sink did not accept");
    describe_gauge!(PUBLISH_LAG_ENTRIES, "Feed entries not delivered to a sink");
    describe_gauge!(PUBLISH_LAG_GRAPHS, "Graphs with events not delivered to a sink");
    describe_gauge!(PUBLISH_LAG_NOTICES, "Notices of runs and items not delivered to a sink");
    describe_gauge!(
        PUBLISH_LAG_SECONDS,
        Unit::Seconds,
        "Age of the oldest undelivered event or notice of a sink"
    );
    describe_counter!(RUNS_CREATED, "Device runs created");
    describe_counter!(RUN_ASSIGNMENTS, "Run seats assigned to devices");
    describe_counter!(RUN_REASSIGNMENTS, "Run seats released for reassignment, by reason");
    describe_counter!(RUNS_ENDED, "Ended device runs, by status");
    describe_histogram!(
        RUN_CLAIM_SECONDS,
        Unit::Seconds,
        "Time from the creation of a run to its first claim"
    );
    describe_gauge!(QUEUE_ASSIGNMENTS, "Assignments since the beginning, by status");
    describe_gauge!(QUEUE_ITEMS, "Items added to queues since the beginning, by status");
    describe_gauge!(QUEUES, "People queues that were ever used, over all tenants");
    describe_gauge!(QUEUE_COMPLETION, "Share of assignments that were completed");
    describe_gauge!(QUEUE_SKIPS, "Share of assignments that were skipped");
    describe_gauge!(QUEUE_EXPIRIES, "Share of assignments that expired");
    describe_gauge!(
        QUEUE_SECONDS,
        Unit::Seconds,
        "Average time from the start of an assignment to its completion"
    );
    describe_gauge!(QUEUE_ATTEMPTS, "Average number of attempts per completed assignment");
    describe_gauge!(DEVICES, "Registered devices");
    describe_gauge!(DEVICES_REACHABLE, "Devices with a recent heartbeat");
    describe_gauge!(
        RUN_SEATS,
        "Supervised run seats, by status; without paused runs and without seats that devices claim by themselves"
    );
    describe_gauge!(LANE_PENDING, "Doorbells delivered and not acknowledged, per lane");
    describe_gauge!(LANE_LAG, "Doorbells not yet delivered, per lane");
    describe_gauge!(
        LANE_OVERFLOW,
        "Doorbells in overflow, outside their lane because their tenant has a backlog, per lane"
    );
}
