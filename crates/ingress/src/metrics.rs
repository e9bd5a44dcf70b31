//! Metrics of the ingress: their descriptions, and the recording of counters.

use axum::http::{Method, StatusCode};
use millstream_store::backlog_gauges;

/// Describes the metrics to the recorder. Call once, after the recorder is installed.
pub fn describe_metrics() {
    crate::process_metrics::record_start();
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("millstream_http_requests_total", "Requests answered, by route, method and status.");
    describe_histogram!("millstream_http_request_seconds", "Time to answer a request, by route.");
    describe_counter!("millstream_grpc_calls_total", "Calls answered over gRPC, by method and code.");
    describe_histogram!("millstream_grpc_call_seconds", "Time of a call over gRPC, by method.");
    describe_gauge!("millstream_http_in_flight", "Requests being worked on.");
    describe_counter!(
        "millstream_anonymous_refused_total",
        "Calls without a key that were refused because their budget was used up, by budget."
    );
    describe_gauge!("millstream_connections", "Open connections.");
    describe_counter!(
        "millstream_connections_evicted_total",
        "Connections closed to make room, by the limit that was reached."
    );
    describe_counter!(
        "millstream_connections_reserved_total",
        "Connections served in the reserve (probes only), because no other could be evicted."
    );
    describe_counter!(
        "millstream_connections_timed_out_total",
        "Connections closed because they were idle for too long, or never used by an authenticated caller."
    );
    describe_histogram!(
        "millstream_append_batch_size",
        "Events and executions in one commit of the ingress."
    );
    describe_histogram!("millstream_append_seconds", "Time of one commit of the ingress.");
    describe_counter!("millstream_append_failures_total", "Commits of the ingress that failed, by reason.");
    describe_gauge!("millstream_append_queue_depth", "Requests waiting for a commit.");
    describe_counter!("millstream_runs_created_total", "Runs of devices created.");
    describe_counter!(
        "millstream_run_assignments_total",
        "Seats of runs assigned to devices, or claimed by them."
    );
    describe_counter!("millstream_run_reassignments_total", "Seats released for reassignment, by reason.");
    describe_counter!("millstream_runs_ended_total", "Runs of devices that have ended, by status.");
    describe_histogram!("millstream_run_claim_seconds", "From the creation of a run to its first claim.");
    describe_counter!("millstream_run_acts_refused_total", "Refused acts of devices, by why.");
    describe_counter!("millstream_rings_total", "Doorbells rung by the ingress.");
    describe_counter!("millstream_ring_failures_total", "Failed attempts to ring doorbells.");
    describe_counter!("millstream_ring_overflow_total", "Doorbells left to the overdue sweep.");
    describe_gauge!("millstream_unrung", "Executions whose doorbell is not rung yet.");
    describe_gauge!(backlog_gauges::UNDECIDED_EVENTS, "Accepted events that are not decided.");
    describe_gauge!(backlog_gauges::OLDEST_UNDECIDED_SECONDS, "Age of the oldest undecided event.");
    describe_gauge!(backlog_gauges::DEAD_EVENTS, "Dead events (dead letters).");
    describe_gauge!(backlog_gauges::PAUSED_EXECUTIONS, "Executions that are paused.");
    describe_gauge!(backlog_gauges::OPEN_INCIDENTS, "Open incidents.");
    describe_gauge!(backlog_gauges::OPEN_ACTIONS, "Actions that are not settled.");
    describe_counter!(
        "millstream_people_total",
        "Events of people's work items in this process, by kind of log entry."
    );
    describe_counter!("millstream_people_idle_total", "Requests for work that found no item.");
    describe_counter!("millstream_items_imported_total", "Items that were imported.");
    describe_gauge!("millstream_stream_length", "Entries in the stream, by lane.");
    describe_gauge!("millstream_stream_pending", "Entries delivered and not acknowledged, by lane.");
    describe_gauge!("millstream_stream_lag", "Entries not yet delivered, by lane.");
}

pub(crate) fn record_request(method: &Method, route: &str, status: StatusCode, seconds: f64) {
    // Clients choose the method from an open set; an unknown one must not create a new series.
    let method = match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        _ => "other",
    };
    let route = route.to_owned();
    metrics::counter!(
        "millstream_http_requests_total",
        "method" => method, "route" => route.clone(), "status" => status.as_u16().to_string()
    )
    .increment(1);
    metrics::histogram!("millstream_http_request_seconds", "route" => route).record(seconds);
}

pub(crate) fn record_call(method: &'static str, code: tonic::Code, seconds: f64) {
    let code = format!("{code:?}");
    metrics::counter!("millstream_grpc_calls_total", "method" => method, "code" => code).increment(1);
    metrics::histogram!("millstream_grpc_call_seconds", "method" => method).record(seconds);
}

pub(crate) fn set_open_connections(open: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    metrics::gauge!("millstream_connections").set(open as f64);
}

pub(crate) fn record_eviction(reason: &'static str) {
    metrics::counter!("millstream_connections_evicted_total", "reason" => reason).increment(1);
}

pub(crate) fn record_reserved() {
    metrics::counter!("millstream_connections_reserved_total").increment(1);
}

pub(crate) fn record_timeout() {
    metrics::counter!("millstream_connections_timed_out_total").increment(1);
}

/// Counts a request as in flight until dropped.
#[derive(Debug)]
pub(crate) struct InFlight;

impl InFlight {
    pub(crate) fn begin() -> Self {
        metrics::gauge!("millstream_http_in_flight").increment(1.0);
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!("millstream_http_in_flight").decrement(1.0);
    }
}
