//! Edits of a running graph: all of a patch, or none.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millstream_api::graph_spec::GraphEditRequest;
use millstream_api::graphs::{AppliedEdit, GraphEditAccepted};
use millstream_workflow::graph::NodeEdit;
use tokio::time::Instant;
use uuid::Uuid;

use super::connect::Client;
use super::graphs::graph_path;
use super::json;
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;
use crate::graph::{NewNode, parse_node_id};

/// How long the server waits for the decision.
const SERVER_WAITS: Duration = Duration::from_secs(10);
/// How long the client waits for an accepted patch; it is decided in any case.
const PATIENCE: Duration = Duration::from_secs(60);
const BREATH: Duration = Duration::from_millis(200);

/// A patch; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct EditGraph {
    client: Client,
    graph: String,
    expected_revision: u32,
    edits: Result<Vec<NodeEdit>, String>,
    key: Option<String>,
}

/// The answer to a patch: decided, or accepted and not decided while the server waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphEditAnswer {
    Applied(AppliedEdit),
    /// It is decided in any case.
    Accepted(GraphEditAccepted),
}

impl Client {
    /// Changes the shape of a running graph; sent when awaited. The edits are applied as a whole or not at
    /// all.
    ///
    /// Optimistic concurrency: `expected_revision` is the revision for which the edits were made
    /// ([`Graph::revision`](super::GraphSummary::revision)). If the graph has another revision, nothing is changed
    /// and the answer is a conflict (409): read the graph again and retry.
    pub fn edit_graph(&self, graph: &str, expected_revision: u32) -> EditGraph {
        EditGraph {
            client: self.clone(),
            graph: graph.to_owned(),
            expected_revision,
            edits: Ok(Vec::new()),
            key: None,
        }
    }
}

impl EditGraph {
    /// Inserts a node, after any existing nodes, including ended ones.
    pub fn insert(self, node: impl Into<NewNode>) -> Self {
        let edit = node.into().build_spec().map(|node| NodeEdit::Insert(Arc::new(node)));
        self.push_edit(edit)
    }

    /// Replaces a node as a whole. Only while it is `PENDING`.
    pub fn update(self, node: impl Into<NewNode>) -> Self {
        let edit = node.into().build_spec().map(|node| NodeEdit::Update(Arc::new(node)));
        self.push_edit(edit)
    }

    /// Deletes a node. Only while it is `PENDING` and no remaining node depends on it.
    pub fn delete(self, node: impl AsRef<str>) -> Self {
        self.push_edit(parse_node_id(node.as_ref()).map(NodeEdit::Delete))
    }

    /// Adds edits made elsewhere.
    pub fn edits(self, edits: impl IntoIterator<Item = NodeEdit>) -> Self {
        edits.into_iter().fold(self, |editing, edit| editing.push_edit(Ok(edit)))
    }

    /// A caller-supplied idempotency key. By default each call creates its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sends the patch and returns its outcome when the server answers, which may be before the decision.
    pub async fn without_waiting(self) -> Result<GraphEditAnswer, ClientError> {
        let (client, ask) = self.into_request()?;
        send_patch(&client, &ask).await
    }

    fn push_edit(mut self, edit: Result<NodeEdit, String>) -> Self {
        self.edits = self.edits.and_then(|mut edits| {
            edits.push(edit?);
            Ok(edits)
        });
        self
    }

    fn into_request(self) -> Result<(Client, ApiRequest), ClientError> {
        let ask = ApiRequest::post(graph_path(&self.graph, "/edits"), RepeatPolicy::Always)
            .with_json(self.request_body()?);
        let key = self.key.unwrap_or_else(|| Uuid::now_v7().to_string());
        Ok((self.client, ask.add_header("idempotency-key", key).with_server_wait(SERVER_WAITS)))
    }

    fn request_body(&self) -> Result<Vec<u8>, ClientError> {
        let edits = self.edits.as_ref().map_err(|reason| ClientError::Unsendable(reason.clone()))?;
        let edits = edits.iter().collect();
        json::json_body(&GraphEditRequest::<&NodeEdit> { expected_revision: self.expected_revision, edits })
    }
}

impl IntoFuture for EditGraph {
    type Output = Result<AppliedEdit, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, ask) = self.into_request()?;
            // A repetition with the same key waits again.
            let deadline = Instant::now() + PATIENCE;
            loop {
                match send_patch(&client, &ask).await? {
                    GraphEditAnswer::Applied(applied) => return Ok(applied),
                    GraphEditAnswer::Accepted(_) if Instant::now() >= deadline => {
                        return Err(ClientError::TimedOut(PATIENCE));
                    }
                    GraphEditAnswer::Accepted(_) => tokio::time::sleep(BREATH).await,
                }
            }
        })
    }
}

async fn send_patch(client: &Client, ask: &ApiRequest) -> Result<GraphEditAnswer, ClientError> {
    let answer = client.send_request(ask).await?;
    Ok(match answer.status {
        202 => GraphEditAnswer::Accepted(answer.json()?),
        _ => GraphEditAnswer::Applied(answer.json()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_patch_matches_api() {
        let client = Client::new("http://127.0.0.1:7400").unwrap();
        let editing = client
            .edit_graph("g", 3)
            .insert(NewNode::of("c").after("a"))
            .update(NewNode::of("b"))
            .delete("d");
        assert_eq!(
            String::from_utf8(editing.request_body().unwrap()).unwrap(),
            r#"{"expected_revision":3,"edits":[{"insert":{"id":"c","parents":["a"]}},{"update":{"id":"b"}},{"delete":"d"}]}"#
        );
        let error = client.edit_graph("g", 3).delete("D").delete("e").request_body().unwrap_err();
        assert!(error.to_string().contains("\"D\""), "{error}");
    }
}
