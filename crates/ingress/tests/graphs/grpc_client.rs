//! A gRPC client for a real listener, and helpers that most calls need.

use millstream_rpc::proto::executor_service_client::ExecutorServiceClient;
use millstream_rpc::proto::task_service_client::TaskServiceClient;
use millstream_rpc::proto::workflow_service_client::WorkflowServiceClient;
use millstream_rpc::proto::{CreateWorkflowRequest, Node, Parent, Workflow, WorkflowMetadata};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::bench::open_options;
use crate::engine::Engine;
use crate::wire::{Served, serve};

pub(crate) struct Clients {
    pub(crate) door: Served,
    pub(crate) engine: Engine,
    pub(crate) channel: Channel,
}

impl Clients {
    pub(crate) async fn open() -> Self {
        Self::of(serve(open_options()).await).await
    }

    pub(crate) async fn of(door: Served) -> Self {
        let channel = Endpoint::from_shared(format!("http://{}", door.address)).unwrap();
        let channel = channel.connect().await.unwrap();
        Self { engine: Engine::from(&door), door, channel }
    }

    pub(crate) fn workflows(&self) -> WorkflowServiceClient<Channel> {
        WorkflowServiceClient::new(self.channel.clone())
    }

    pub(crate) fn executors(&self) -> ExecutorServiceClient<Channel> {
        ExecutorServiceClient::new(self.channel.clone())
    }

    pub(crate) fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.channel.clone())
    }

    /// A started chain of three nodes.
    pub(crate) async fn chain(&self, id: &str) {
        self.workflows().create_workflow(create(chain(id))).await.unwrap();
        self.engine.decide(id).await;
    }
}

pub(crate) fn node(id: &str, parents: &[&str]) -> Node {
    let parent = |node: &&str| Parent { node: (*node).to_owned(), condition: None };
    Node { id: id.to_owned(), parents: parents.iter().map(parent).collect(), ..Node::default() }
}

pub(crate) fn workflow(id: &str, nodes: Vec<Node>) -> Workflow {
    let metadata = WorkflowMetadata { name: "chain".to_owned(), ..WorkflowMetadata::default() };
    Workflow { workflow_id: id.to_owned(), metadata: Some(metadata), nodes, ..Workflow::default() }
}

/// The same graph as the JSON one.
pub(crate) fn chain(id: &str) -> Workflow {
    let mut first = node("a", &[]);
    first.assigned_task.get_or_insert_default().goal = "begin".to_owned();
    let mut last = node("c", &["b"]);
    last.parents[0].condition = Some("results.b.go".to_owned());
    let chain = workflow(id, vec![first, node("b", &["a"]), last]);
    Workflow { input_json: r#"{"n":1}"#.to_owned(), ..chain }
}

pub(crate) fn create(workflow: Workflow) -> CreateWorkflowRequest {
    CreateWorkflowRequest { workflow: Some(workflow) }
}

/// The same request with a key.
pub(crate) fn keyed<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, words: &str) -> Status {
    let status = answer.expect_err("it was not refused");
    assert_eq!(status.code(), code, "{status:?}");
    assert!(status.message().contains(words), "{words:?} is not in {status:?}");
    status
}
