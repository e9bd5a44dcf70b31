//! What the executor can do: plan, search, write and crawl, without knowing anything. It performs the graphs in
//! `examples/graphs`.
//!
//! A planner inserts a search node for every topic (or source) of the workflow's input, and the node after it that
//! summarises them waits for all of them: the graph grows while it runs.

use millstream_rpc::proto::node_edit::Kind;
use millstream_rpc::proto::node_service_server::NodeService;
use millstream_rpc::proto::{
    Agent, ExecuteNodeRequest, ExecuteNodeResponse, Node, NodeEdit, NodeStatus, Parent, Task,
};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use crate::drill;

#[derive(Debug)]
pub(crate) struct Performer;

#[tonic::async_trait]
impl NodeService for Performer {
    async fn execute_node(
        &self,
        request: Request<ExecuteNodeRequest>,
    ) -> Result<Response<ExecuteNodeResponse>, Status> {
        let request = request.into_inner();
        let (role, goal) = role_and_goal(&request);
        let mut response = match role.as_str() {
            "planner" => plan(&request),
            "searcher" => passed(&json!({ "found": format!("everything about {goal}") })),
            "writer" => passed(&summary(&request)),
            "crawler" => crawl(&request),
            _ => drill::perform(&request, &goal).await?,
        };
        // An answer says whose it is.
        if response.node_id.is_empty() {
            response.workflow_id = request.workflow_id;
            response.node_id = request.node_id;
        }
        Ok(Response::new(response))
    }
}

fn role_and_goal(request: &ExecuteNodeRequest) -> (String, String) {
    let node = request.node.clone().unwrap_or_default();
    (node.agent.unwrap_or_default().role, node.assigned_task.unwrap_or_default().goal)
}

pub(crate) fn passed(results: &Value) -> ExecuteNodeResponse {
    ExecuteNodeResponse {
        status: NodeStatus::Pass.into(),
        results_json: results.to_string(),
        ..Default::default()
    }
}

/// One search per topic, and the node after the planner waits for all of them.
fn plan(request: &ExecuteNodeRequest) -> ExecuteNodeResponse {
    let input: Value = serde_json::from_str(&request.input_json).unwrap_or(Value::Null);
    let topics: Vec<String> = input["topics"]
        .as_array()
        .or_else(|| input["sources"].as_array())
        .map(|topics| topics.iter().filter_map(|topic| topic.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let mut edits = Vec::new();
    let mut searches = Vec::new();
    for (number, topic) in topics.iter().enumerate() {
        let search = node(&format!("search-{number}"), "searcher", topic, &[&request.node_id]);
        searches.push(search.id.clone());
        edits.push(edit(Kind::Insert, search));
    }
    for after in &request.downstream_nodes {
        let goal = after.assigned_task.clone().unwrap_or_default().goal;
        let parents: Vec<&str> = searches.iter().map(String::as_str).chain([&*request.node_id]).collect();
        let rewired = Node { is_final: true, ..node(&after.id, "writer", &goal, &parents) };
        edits.push(edit(Kind::Update, rewired));
    }
    let logs = format!("{} topics, {} edits\n", topics.len(), edits.len());
    ExecuteNodeResponse { edits, logs, ..passed(&json!({ "topics": topics })) }
}

fn summary(request: &ExecuteNodeRequest) -> Value {
    let found = request.upstream_nodes.iter().filter_map(|node| {
        let results = node.assigned_task.as_ref()?.results_json.clone();
        let results: Value = serde_json::from_str(&results).ok()?;
        Some(json!([node.id, results["found"]]))
    });
    json!({ "summary": found.collect::<Vec<_>>() })
}

/// Lists the links of a site, or looks at one: every seventh is broken.
fn crawl(request: &ExecuteNodeRequest) -> ExecuteNodeResponse {
    let item = request.node.as_ref().map(|node| node.item_json.as_str()).unwrap_or_default();
    let Ok(link) = serde_json::from_str::<String>(item) else {
        let links: Vec<String> = (1..=20).map(|number| format!("/page/{number}")).collect();
        return passed(&json!({ "links": links }));
    };
    let number = link.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    if number % 7 == 0 {
        let error = format!("{link} does not answer");
        return ExecuteNodeResponse { status: NodeStatus::Fail.into(), error, ..Default::default() };
    }
    passed(&json!({ "alive": link }))
}

fn node(id: &str, role: &str, goal: &str, parents: &[&str]) -> Node {
    let edges = parents.iter().map(|parent| Parent { node: (*parent).to_owned(), ..Default::default() });
    Node {
        id: id.to_owned(),
        parents: edges.collect(),
        agent: Some(Agent { role: role.to_owned(), ..Default::default() }),
        assigned_task: Some(Task { goal: goal.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

pub(crate) fn edit(kind: Kind, node: Node) -> NodeEdit {
    NodeEdit { kind: kind.into(), node: Some(node), ..Default::default() }
}
