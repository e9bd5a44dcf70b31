//! Graphs: create, query, list, wait, cancel.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_api::graph_spec::NewGraphBody;
use millstream_api::graph_words::GraphStatus;
use millstream_api::graphs::GraphSummary;
use tokio::time::Instant;
use uuid::Uuid;

use super::connect::Client;
use super::events::reason_body;
use super::json;
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;
use crate::graph::NewGraph;

/// A creation; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct CreateGraph {
    client: Client,
    graph: NewGraph,
    id: Option<String>,
    key: Option<String>,
}

/// A list of graphs, newest first. Set filters, then [`stream`](GraphList::stream) it or await all of them.
#[derive(Debug)]
pub struct GraphList(PagedList<GraphSummary>);

impl Client {
    /// Creates a graph, from a [`GraphSpec`](crate::graph::GraphSpec) or a [`NewGraph`], and starts its first nodes; sent when
    /// awaited.
    ///
    /// The answer does not say whether the graph is new: a retry after a lost answer could not tell.
    pub fn create_graph(&self, graph: impl Into<NewGraph>) -> CreateGraph {
        CreateGraph { client: self.clone(), graph: graph.into(), id: None, key: None }
    }

    /// The current state of a graph, without its nodes.
    pub async fn get_graph(&self, id: &str) -> Result<GraphSummary, ClientError> {
        self.send_request(&ApiRequest::get(graph_path(id, ""))).await?.json()
    }

    /// Graphs, newest first, in any status by default.
    pub fn list_graphs(&self) -> GraphList {
        GraphList(PagedList::new(self, ApiRequest::get("/v1/graphs")))
    }

    /// Cancels a graph: running nodes are cancelled, waiting nodes do not start. The reason is recorded. An
    /// ended graph is unchanged. Under load the answer may precede the end.
    pub async fn cancel_graph(&self, id: &str, why: Option<&str>) -> Result<GraphSummary, ClientError> {
        // A repetition finds the graph ended, or is rejected when it is decided.
        self.send_request(
            &ApiRequest::post(graph_path(id, "/cancel"), RepeatPolicy::Always).with_json(reason_body(why)?),
        )
        .await?
        .json()
    }

    /// The graph once it has ended, or [`ClientError::TimedOut`]. A paused graph has not ended.
    pub async fn wait_for_graph(&self, id: &str, timeout: Duration) -> Result<GraphSummary, ClientError> {
        let deadline = Instant::now() + timeout;
        loop {
            let waited = async {
                let graph = self.get_graph(id).await?;
                if !graph.status.is_ended() {
                    let mut watch = self.watch_graph(id);
                    while watch.next().await.transpose()?.is_some() {}
                }
                Ok(graph)
            };
            let graph: GraphSummary = tokio::time::timeout_at(deadline, waited)
                .await
                .map_err(|_| ClientError::TimedOut(timeout))??;
            if graph.status.is_ended() {
                return Ok(graph);
            }
        }
    }
}

impl CreateGraph {
    /// A caller-supplied id. The same graph with the same id is created once; another graph with that id is
    /// refused (409).
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// A caller-supplied idempotency key: without an [`id`](CreateGraph::id), the id is derived from it.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl IntoFuture for CreateGraph {
    type Output = Result<GraphSummary, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // The id or the key identifies a repetition.
            let id = match (self.id, &self.key) {
                (None, None) => Some(Uuid::now_v7().to_string()),
                (id, _) => id,
            };
            let body = NewGraphBody { graph_id: id, graph: self.graph.build()? };
            let mut ask =
                ApiRequest::post("/v1/graphs", RepeatPolicy::Always).with_json(json::json_body(&body)?);
            if let Some(key) = self.key {
                ask = ask.add_header("idempotency-key", key);
            }
            self.client.send_request(&ask).await?.json()
        })
    }
}

impl GraphList {
    #[must_use]
    pub fn status(self, status: GraphStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    /// Number of graphs per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    /// A filter by the name of its query parameter: for a word that this client does not know.
    #[must_use]
    pub fn filter(self, name: &'static str, value: &str) -> Self {
        Self(self.0.add_query(name, value))
    }

    pub fn stream(self) -> PagedStream<GraphSummary> {
        self.0.stream()
    }
}

impl IntoFuture for GraphList {
    type Output = Result<Vec<GraphSummary>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

/// The path of a graph, or of a part of it.
pub(crate) fn graph_path(id: &str, rest: &str) -> String {
    format!("/v1/graphs/{}{rest}", path_segment(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::NewNode;

    #[test]
    fn graph_creation_matches_api() {
        let input = serde_json::json!({ "n": 1 });
        let graph = NewGraph::named("g").input(input).node(NewNode::of("a")).build().unwrap();
        let body =
            serde_json::to_string(&NewGraphBody { graph_id: Some("g-1".to_owned()), graph: &graph }).unwrap();
        assert_eq!(body, r#"{"graph_id":"g-1","name":"g","input":{"n":1},"nodes":[{"id":"a"}]}"#);
        let body = serde_json::to_string(&NewGraphBody { graph_id: None, graph: &graph }).unwrap();
        assert_eq!(body, r#"{"name":"g","input":{"n":1},"nodes":[{"id":"a"}]}"#);
    }
}
