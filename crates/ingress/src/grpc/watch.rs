//! `WatchWorkflow`: the events of a workflow, as messages.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_core::id::{ExecutionId, ExecutionKey};
use millstream_rpc::proto::WorkflowEvent;
use millstream_rpc::write::{Occasion, dispatch_event, notice_event};
use tonic::Status;

use super::status::{invalid, status};
use crate::door::Door;
use crate::graphs::place::Place;
use crate::graphs::watch::{Happening, Watching, What, watch};

pub(super) type Events = BoxStream<'static, Result<WorkflowEvent, Status>>;

pub(super) async fn events(door: Arc<Door>, graph: ExecutionKey, after: &str) -> Result<Events, Status> {
    let after = match after {
        "" => None,
        text => Some(Place::parse(text).ok_or_else(|| {
            invalid("after_position", "is not a position; use that of an event as it was given")
        })?),
    };
    let id = graph.execution.clone();
    match watch(door, graph, after).await.map_err(status)? {
        Watching::SeenAll => Ok(futures::stream::empty().boxed()),
        Watching::On(watch) => Ok(futures::stream::unfold((watch, id), |(mut watch, id)| async move {
            let event = match watch.next().await? {
                Ok(happening) => Ok(shown(happening, &id)),
                Err(problem) => Err(status(problem)),
            };
            Some((event, (watch, id)))
        })
        .boxed()),
    }
}

fn shown(happening: Happening, workflow: &ExecutionId) -> WorkflowEvent {
    let Happening { place, at, what } = happening;
    let occasion = Occasion { position: place.to_string(), workflow, at };
    match what {
        What::Noticed(seq, notice) => notice_event(occasion, seq, &notice),
        What::Dispatched(dispatched) => dispatch_event(occasion, dispatched),
    }
}
