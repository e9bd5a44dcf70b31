//! `WatchWorkflow`: the events of a workflow, as messages.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_model::id::{ExecutionId, ExecutionKey};
use millstream_rpc::proto::WorkflowEvent;
use millstream_rpc::write::{WorkflowEventHead, dispatch_event, notice_event};
use tonic::Status;

use super::status::{invalid_field, status_of_refusal};
use crate::graphs::watch::{GraphWatchStart, WatchedEvent, WatchedEventKind, watch_graph};
use crate::graphs::watch_position::WatchPosition;
use crate::state::IngressState;

pub(super) type WorkflowEventStream = BoxStream<'static, Result<WorkflowEvent, Status>>;

pub(super) async fn watch_events(
    door: Arc<IngressState>,
    graph: ExecutionKey,
    after: &str,
) -> Result<WorkflowEventStream, Status> {
    let after = match after {
        "" => None,
        text => Some(WatchPosition::parse(text).ok_or_else(|| {
            invalid_field("after_position", "is not a position; use that of an event as it was given")
        })?),
    };
    let id = graph.execution.clone();
    match watch_graph(door.graphs.clone(), graph, after).await.map_err(status_of_refusal)? {
        GraphWatchStart::SeenAll => Ok(futures::stream::empty().boxed()),
        GraphWatchStart::On(watch) => {
            Ok(futures::stream::unfold((watch, id), |(mut watch, id)| async move {
                let event = match watch.next_event().await? {
                    Ok(happening) => Ok(encode_event(happening, &id)),
                    Err(refusal) => Err(status_of_refusal(refusal)),
                };
                Some((event, (watch, id)))
            })
            .boxed())
        }
    }
}

fn encode_event(happening: WatchedEvent, workflow: &ExecutionId) -> WorkflowEvent {
    let WatchedEvent { place, at, what } = happening;
    let occasion = WorkflowEventHead { position: place.to_string(), workflow, at };
    match what {
        WatchedEventKind::Noticed(seq, notice) => notice_event(occasion, seq, &notice),
        WatchedEventKind::Dispatched(dispatched) => dispatch_event(occasion, dispatched),
    }
}
