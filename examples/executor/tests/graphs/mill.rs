//! A mill: the engine in one of its modes, and executors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_testkit::client::TestClient;
use millstream_testkit::daemon::TestProcess;
use millstream_testkit::fleet::FleetEnv;
use millstream_testkit::{FleetMode, TestFleet, eventually};
use serde_json::{Value, json};

/// How long anything that must happen may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);

const SETTINGS: FleetEnv<'static> = &[
    ("MILLSTREAM_WORKER__LEASE", "3s"),
    ("MILLSTREAM_WORKER__LOCK_TTL", "1500ms"),
    ("MILLSTREAM_WORKER__RECLAIM_IDLE", "2s"),
    ("MILLSTREAM_WORKER__OVERDUE", "1s"),
    ("MILLSTREAM_LOG_FORMAT", "text"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Built {
    Embedded,
    Fleet,
}

pub(crate) struct Mill {
    pub(crate) fleet: TestFleet,
    pub(crate) api: TestClient,
    pub(crate) executors: Vec<TestProcess>,
}

impl Mill {
    /// With one executor, which can do everything.
    pub(crate) async fn open(built: Built) -> Self {
        let mut mill = Self::idle(built).await;
        mill.hire("first", &[]);
        mill
    }

    pub(crate) async fn idle(built: Built) -> Self {
        Self::idle_with(built, &[]).await
    }

    pub(crate) async fn idle_with(built: Built, more: FleetEnv<'_>) -> Self {
        let mode = match built {
            Built::Embedded => FleetMode::Embedded,
            Built::Fleet => FleetMode::Fleet { workers: 2 },
        };
        let fleet = TestFleet::start(mode, millstream(), &[SETTINGS, more].concat()).await;
        Self { api: fleet.client(), fleet, executors: Vec::new() }
    }

    /// One more executor; answers its index.
    pub(crate) fn hire(&mut self, name: &str, more: &[&str]) -> usize {
        let arguments: Vec<&str> = ["--name", name].iter().chain(more).copied().collect();
        let executor = self.fleet.start_other(name, env!("CARGO_BIN_EXE_executor"), &arguments, &[]);
        self.executors.push(executor);
        self.executors.len() - 1
    }

    pub(crate) async fn create(&self, id: &str, mut graph: Value) -> Value {
        graph["graph_id"] = json!(id);
        if graph["name"].is_null() {
            graph["name"] = json!(id);
        }
        self.api.post("/v1/graphs", &graph).await.expect_status(201)
    }

    pub(crate) async fn graph(&self, id: &str) -> Value {
        self.api.get(&format!("/v1/graphs/{id}")).await.expect_status(200)
    }

    /// Waits for the end; the graph must have ended so.
    pub(crate) async fn ends(&self, id: &str, status: &str) -> BTreeMap<String, Value> {
        let graph = eventually(SOON, || async {
            let graph = self.graph(id).await;
            if graph["status"] == "RUNNING" { Err(self.nodes(id).await) } else { Ok(graph) }
        })
        .await;
        let nodes = self.nodes(id).await;
        assert_eq!(graph["status"], status, "{graph} {nodes:#?}");
        nodes
    }

    pub(crate) async fn nodes(&self, id: &str) -> BTreeMap<String, Value> {
        let (mut nodes, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let page =
                self.api.get(&format!("/v1/graphs/{id}/nodes?limit=500{cursor}")).await.expect_status(200);
            for node in page["items"].as_array().unwrap() {
                nodes.insert(node["node"].as_str().unwrap().to_owned(), node.clone());
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return nodes,
            }
        }
    }

    pub(crate) async fn node(&self, id: &str, node: &str) -> Value {
        self.api.get(&format!("/v1/graphs/{id}/nodes/{node}")).await.expect_status(200)
    }

    pub(crate) async fn node_is(&self, id: &str, node: &str, status: &str) -> Value {
        eventually(SOON, || async {
            let node = self.node(id, node).await;
            if node["status"] == status { Ok(node) } else { Err(node.to_string()) }
        })
        .await
    }

    /// A file that executors write to.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.fleet.directory().join(name)
    }
}

/// `{node: status}`.
pub(crate) fn statuses(nodes: &BTreeMap<String, Value>) -> BTreeMap<&str, &str> {
    nodes.iter().map(|(id, node)| (id.as_str(), node["status"].as_str().unwrap())).collect()
}

/// A node with a goal.
pub(crate) fn node(id: &str, goal: &str, parents: &[&str]) -> Value {
    json!({ "id": id, "parents": parents, "task": { "goal": goal } })
}

/// The engine's own binary, which a run of all tests has built beside this example's.
fn millstream() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_executor")).with_file_name("millstream");
    assert!(path.exists(), "{} is missing: cargo build --workspace --bins", path.display());
    path
}
