//! Graph nodes: queries, lists, and asynchronous results from executors.

use std::future::Future;
use std::pin::Pin;

use millstream_api::graph_nodes::{
    GraphNode, GraphNodeDetail, NodeAttemptProgress, NodeAttemptResult, NodeHeld, NodeLogEntry,
};
use millstream_api::graph_words::{NodeOutcome, NodeStatus};
use millstream_workflow::graph::NodeEdit;
use serde::Serialize;
use serde_json::value::RawValue;

use super::connect::Client;
use super::graphs;
use super::json::{self, JsonText};
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// The nodes of a graph in the order of their ids, without results. Set filters, then
/// [`stream`](NodeList::stream) it or await all of them.
#[derive(Debug)]
pub struct NodeList(PagedList<GraphNode>);

/// Result of a node attempt, from an executor that accepted it and reports later.
#[derive(Debug, Clone)]
pub struct NodeResult {
    token: i64,
    status: NodeOutcome,
    result: Option<JsonText>,
    error: Option<String>,
    edits: Vec<NodeEdit>,
    logs: Option<String>,
}

/// Progress of a node attempt.
#[derive(Debug, Clone)]
pub struct NodeProgress {
    token: i64,
    progress: Option<JsonText>,
    logs: Option<String>,
}

impl Client {
    /// The nodes of a graph, in any status by default.
    pub fn nodes(&self, graph: &str) -> NodeList {
        NodeList(PagedList::new(self, ApiRequest::get(graphs::graph_path(graph, "/nodes"))))
    }

    /// One node with its result.
    pub async fn node(&self, graph: &str, node: &str) -> Result<GraphNodeDetail, ClientError> {
        self.send_request(&ApiRequest::get(node_path(graph, node, ""))).await?.json()
    }

    /// The log entries of executors about a node, of all attempts, in order.
    pub fn node_logs(&self, graph: &str, node: &str) -> PagedList<NodeLogEntry> {
        PagedList::new(self, ApiRequest::get(node_path(graph, node, "/logs")))
    }

    /// Reports the result of an attempt that was accepted earlier. 409 if it is no longer the current one.
    ///
    /// Returns the node's state right after the call: the result may not have reached the graph yet.
    pub async fn node_result(
        &self,
        graph: &str,
        node: &str,
        result: &NodeResult,
    ) -> Result<GraphNode, ClientError> {
        // The token identifies the attempt: the server recognises a repeated result.
        let ask = ApiRequest::post(node_path(graph, node, "/result"), RepeatPolicy::Always)
            .with_json(json::json_body(&result.request_body()?)?);
        self.send_request(&ask).await?.json()
    }

    /// Reports progress, which is also the heartbeat of the attempt. It does not extend the node's timeout.
    ///
    /// Not repeated when the answer is lost: the text would be in the node's log twice.
    pub async fn node_progress(
        &self,
        graph: &str,
        node: &str,
        progress: &NodeProgress,
    ) -> Result<NodeHeld, ClientError> {
        let ask = ApiRequest::post(node_path(graph, node, "/progress"), RepeatPolicy::IfNothingHappened);
        self.send_request(&ask.with_json(json::json_body(&progress.request_body()?)?)).await?.json()
    }
}

impl NodeResult {
    /// Done, with a positive result. `token` came with the attempt.
    pub fn pass(token: i64, result: impl Serialize) -> Self {
        let result = Some(JsonText::of_value(&result));
        Self { token, status: NodeOutcome::Pass, result, error: None, edits: Vec::new(), logs: None }
    }

    /// Done, with a negative result.
    pub fn fail(token: i64, error: impl Into<String>) -> Self {
        Self::of_status(token, NodeOutcome::Fail, error)
    }

    /// The task could not be done.
    pub fn task_error(token: i64, error: impl Into<String>) -> Self {
        Self::of_status(token, NodeOutcome::TaskError, error)
    }

    /// The task could not be done because of its environment: retried by default.
    pub fn infra_error(token: i64, error: impl Into<String>) -> Self {
        Self::of_status(token, NodeOutcome::InfraError, error)
    }

    fn of_status(token: i64, status: NodeOutcome, error: impl Into<String>) -> Self {
        Self { token, status, result: None, error: Some(error.into()), edits: Vec::new(), logs: None }
    }

    /// Edits to apply together with a passed result. Invalid edits make the node a `TASK_ERROR`.
    #[must_use]
    pub fn edits(mut self, edits: impl IntoIterator<Item = NodeEdit>) -> Self {
        self.edits.extend(edits);
        self
    }

    /// Log text of the executor; 64 KiB are stored per attempt.
    #[must_use]
    pub fn logs(mut self, text: impl Into<String>) -> Self {
        self.logs = Some(text.into());
        self
    }

    fn request_body(&self) -> Result<NodeAttemptResult<&RawValue, &NodeEdit>, ClientError> {
        Ok(NodeAttemptResult {
            token: self.token,
            attempt: None,
            idempotency_key: None,
            status: self.status,
            result: json::get(self.result.as_ref())?,
            error: self.error.clone(),
            edits: self.edits.iter().collect(),
            logs: self.logs.clone(),
        })
    }
}

impl NodeProgress {
    /// A heartbeat. `token` came with the attempt.
    pub fn of(token: i64) -> Self {
        Self { token, progress: None, logs: None }
    }

    /// Free-form progress of at most 16 KiB. If omitted, the last progress remains.
    #[must_use]
    pub fn progress(mut self, progress: impl Serialize) -> Self {
        self.progress = Some(JsonText::of_value(&progress));
        self
    }

    /// Appended to the node's log; 64 KiB are stored per attempt.
    #[must_use]
    pub fn logs(mut self, text: impl Into<String>) -> Self {
        self.logs = Some(text.into());
        self
    }

    fn request_body(&self) -> Result<NodeAttemptProgress<&RawValue>, ClientError> {
        Ok(NodeAttemptProgress {
            token: self.token,
            attempt: None,
            idempotency_key: None,
            progress: json::get(self.progress.as_ref())?,
            logs: self.logs.clone(),
        })
    }
}

impl NodeList {
    #[must_use]
    pub fn status(self, status: NodeStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    /// Number of nodes per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    /// A filter by the name of its query parameter: for a word that this client does not know.
    #[must_use]
    pub fn filter(self, name: &'static str, value: &str) -> Self {
        Self(self.0.add_query(name, value))
    }

    pub fn stream(self) -> PagedStream<GraphNode> {
        self.0.stream()
    }
}

impl IntoFuture for NodeList {
    type Output = Result<Vec<GraphNode>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

fn node_path(graph: &str, node: &str, rest: &str) -> String {
    graphs::graph_path(graph, &format!("/nodes/{}{rest}", path_segment(node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::NodeId;

    fn written(result: &NodeResult) -> String {
        serde_json::to_string(&result.request_body().unwrap()).unwrap()
    }

    #[test]
    fn node_result_matches_api() {
        assert_eq!(written(&NodeResult::pass(7, [1, 2])), r#"{"token":7,"status":"PASS","result":[1,2]}"#);
        assert_eq!(
            written(&NodeResult::task_error(7, "no").logs("tried")),
            r#"{"token":7,"status":"TASK_ERROR","error":"no","logs":"tried"}"#
        );
        let gone = NodeEdit::Delete(NodeId::parse("b").unwrap());
        assert_eq!(
            written(&NodeResult::pass(7, ()).edits([gone])),
            r#"{"token":7,"status":"PASS","result":null,"edits":[{"delete":"b"}]}"#
        );
    }

    #[test]
    fn node_progress_omits_empty_fields() {
        let told =
            |progress: &NodeProgress| serde_json::to_string(&progress.request_body().unwrap()).unwrap();
        assert_eq!(told(&NodeProgress::of(3)), r#"{"token":3}"#);
        assert_eq!(
            told(&NodeProgress::of(3).progress([0, 2]).logs("x")),
            r#"{"token":3,"progress":[0,2],"logs":"x"}"#
        );
    }

    #[test]
    fn node_path_accepts_any_id() {
        assert_eq!(node_path("g:1", "find.0", "/logs"), "/v1/graphs/g%3A1/nodes/find.0/logs");
    }
}
