//! `LeaseTasks`: a worker announces its free capacity and receives tasks as they become ready.
//!
//! The wait on the board continues while further requests come in: the longest waiting worker is served
//! first. Dropping the stream drops the wait and releases the leases of undelivered tasks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_model::action_queue::WorkerCapability;
use millstream_model::id::{Name, WorkerId};
use millstream_rpc::length::{length_out, time_out};
use millstream_rpc::proto::{LeaseTasksRequest, LeaseTasksResponse, LeasedTask};
use millstream_store::action_store::LeasedAction;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::status::{invalid_field, status_of_refusal};
use crate::admission::HeldPlace;
use crate::auth::TenantCaller;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::tasks::board::LeasePatience;
use crate::tasks::delivery::{ReadyTask, prepare_tasks};
use crate::tasks::lease_request::{ANSWER, LONGEST_WAIT, MANY, MOST, worker_of_caller};
use crate::tasks::ticket::{LeaseTicket, UndeliveredLeases};

/// Cap of a worker's announced capacity; more is ignored.
const ROOM: usize = 65_536;

pub(super) async fn lease_tasks(
    door: Arc<IngressState>,
    caller: &TenantCaller,
    mut asking: Streaming<LeaseTasksRequest>,
) -> Result<BoxStream<'static, Result<LeaseTasksResponse, Status>>, Status> {
    let first = asking.message().await?;
    let first = first.ok_or_else(|| invalid_field("types", "names no type: at least one is needed"))?;
    let kinds = parse_names(&first.types, "types")?;
    if kinds.is_empty() {
        return Err(invalid_field("types", "names no type: at least one is needed"));
    }
    let labels = parse_names(&first.labels, "labels")?;
    let named = match first.worker.as_str() {
        "" => None,
        name => Some(WorkerId::parse(name).map_err(|error| invalid_field("worker", error.to_string()))?),
    };
    let worker = worker_of_caller(caller, named).map_err(status_of_refusal)?;
    let permit = door.admission.wait_place(&caller.tenant).map_err(status_of_refusal)?;
    let mut leasing = TaskLeaseStream {
        can: WorkerCapability { tenant: caller.tenant.clone(), kinds, labels },
        door,
        worker,
        asking: Some(asking),
        room: 0,
        wait: Duration::ZERO,
        until: None,
        pending: None,
        _permit: permit,
    };
    leasing.record_request(&first)?;
    Ok(futures::stream::unfold(Some(leasing), |leasing| async move {
        let mut leasing = leasing?;
        match leasing.next_response().await {
            Ok(Some(tasks)) => Some((Ok(tasks), Some(leasing))),
            Ok(None) => None,
            Err(status) => Some((Err(status), None)),
        }
    })
    .boxed())
}

struct TaskLeaseStream {
    door: Arc<IngressState>,
    worker: WorkerId,
    can: WorkerCapability,
    /// `None` once the client has closed its request stream.
    asking: Option<Streaming<LeaseTasksRequest>>,
    room: usize,
    wait: Duration,
    /// End of the wait; set once the client has closed its request stream.
    until: Option<Instant>,
    /// The wait on the board, and its start time.
    pending: Option<PendingLease>,
    _permit: HeldPlace,
}

struct PendingLease {
    ticket: LeaseTicket,
    asked: millstream_model::time::Timestamp,
}

/// The first event of the stream's next step.
enum LeaseStreamEvent {
    Leased(Vec<LeasedAction>, UndeliveredLeases),
    Request(Result<Option<LeaseTasksRequest>, Status>),
    TimeUp,
    Draining,
}

impl TaskLeaseStream {
    fn record_request(&mut self, request: &LeaseTasksRequest) -> Result<(), Status> {
        let more = match usize::try_from(request.max) {
            Ok(0) => 1,
            Ok(more) if more <= MOST => more,
            Ok(_) | Err(_) => return Err(invalid_field("max", format!("must be at most {MOST}"))),
        };
        self.room = (self.room + more).min(ROOM);
        if let Some(wait) = &request.wait {
            self.wait = decode_wait(wait, "wait")?;
            if self.wait > LONGEST_WAIT {
                return Err(invalid_field("wait", "must be at most a minute"));
            }
        }
        Ok(())
    }

    /// The next tasks; `None` at the end of the stream.
    async fn next_response(&mut self) -> Result<Option<LeaseTasksResponse>, Status> {
        loop {
            if self.room == 0 && self.asking.is_none() {
                return Ok(None);
            }
            match self.next_event().await {
                LeaseStreamEvent::Leased(leased, undelivered) => {
                    let asked = self.pending.take().map(|pending| pending.asked);
                    let asked = asked.unwrap_or_else(|| self.door.clock.now());
                    if leased.is_empty() && self.asks_only() {
                        return Ok(None);
                    }
                    let tasks = prepare_tasks(&self.door.tasks, leased, asked).await;
                    let tasks = tasks.map_err(|error| status_of_refusal(error.into()))?;
                    undelivered.mark_delivered();
                    self.room = self.room.saturating_sub(tasks.len());
                    if !tasks.is_empty() {
                        let tasks = tasks.into_iter().map(encode_task).collect();
                        return Ok(Some(LeaseTasksResponse { tasks }));
                    }
                }
                LeaseStreamEvent::Request(Ok(Some(request))) => {
                    if !request.types.is_empty() || !request.labels.is_empty() || !request.worker.is_empty() {
                        return Err(invalid_field(
                            "types",
                            "types, labels and worker belong into the first request",
                        ));
                    }
                    self.record_request(&request)?;
                }
                LeaseStreamEvent::Request(Ok(None)) => {
                    self.asking = None;
                    let wait = if self.wait.is_zero() { ANSWER } else { self.wait };
                    self.until = Some(Instant::now() + wait);
                    if self.wait.is_zero() {
                        // Poll the store once more, then end.
                        self.pending = None;
                    }
                }
                LeaseStreamEvent::Request(Err(status)) => return Err(status),
                LeaseStreamEvent::TimeUp => return Ok(None),
                LeaseStreamEvent::Draining => {
                    let detail = "this process is shutting down";
                    return Err(status_of_refusal(RequestRefusal::new(RefusalKind::Draining, detail)));
                }
            }
        }
    }

    /// Whether the caller polls: ready tasks only, no waiting.
    const fn asks_only(&self) -> bool {
        self.asking.is_none() && self.wait.is_zero()
    }

    async fn next_event(&mut self) -> LeaseStreamEvent {
        if self.room > 0 && self.pending.is_none() {
            let patience = if self.asks_only() { LeasePatience::Asks } else { LeasePatience::Waits };
            let most = self.room.min(MOST);
            let ticket =
                self.door.tasks.board.wait_for_tasks(self.worker.clone(), self.can.clone(), most, patience);
            self.pending = Some(PendingLease { ticket, asked: self.door.clock.now() });
        }
        let draining = self.door.draining.clone();
        let until = self.until;
        let (asking, pending) = (&mut self.asking, &mut self.pending);
        tokio::select! {
            biased;
            (leased, undelivered) = async {
                match pending {
                    Some(pending) => pending.ticket.wait_for_lease().await,
                    None => std::future::pending().await,
                }
            } => LeaseStreamEvent::Leased(leased, undelivered),
            request = async {
                match asking {
                    Some(asking) => asking.message().await,
                    None => std::future::pending().await,
                }
            } => LeaseStreamEvent::Request(request),
            () = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            } => LeaseStreamEvent::TimeUp,
            () = draining.cancelled() => LeaseStreamEvent::Draining,
        }
    }
}

fn encode_task(task: ReadyTask) -> LeasedTask {
    let ReadyTask { action, input, deadline } = task;
    LeasedTask {
        key: action.lease.key.with_revision(action.revision),
        token: action.lease.epoch.0,
        r#type: input.kind.as_str().to_owned(),
        labels: input.labels.iter().map(|label| label.as_str().to_owned()).collect(),
        execution_id: action.lease.key.execution.execution.as_str().to_owned(),
        action: action.lease.key.action.as_str().to_owned(),
        attempt: action.attempt,
        deadline: Some(time_out(deadline)),
        lease_until: Some(time_out(action.lease_until)),
        heartbeat: action.heartbeat.map(length_out),
        input_json: input.input.as_str().to_owned(),
        progress_json: action.progress.map(|progress| progress.as_str().to_owned()).unwrap_or_default(),
    }
}

fn parse_names(given: &[String], field: &str) -> Result<BTreeSet<Name>, Status> {
    if given.len() > MANY {
        return Err(invalid_field(field, format!("has more than {MANY} items")));
    }
    let name = |(at, text): (usize, &String)| {
        Name::parse(text)
            .map_err(|error| invalid_field(&format!("{field}[{at}]"), format!("the name {error}")))
    };
    given.iter().enumerate().map(name).collect()
}

/// A duration; zero is valid.
pub(super) fn decode_wait(given: &prost_types::Duration, field: &str) -> Result<Duration, Status> {
    let parts = (u64::try_from(given.seconds), u32::try_from(given.nanos));
    match parts {
        (Ok(seconds), Ok(nanos @ ..=999_999_999)) => Ok(Duration::new(seconds, nanos)),
        _ => Err(invalid_field(field, "must not be negative, and its nanos must be less than a second")),
    }
}
