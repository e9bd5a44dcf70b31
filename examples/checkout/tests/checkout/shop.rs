//! A shop: the engine in one of its modes, the workers in Rust and in Python, and a payment service.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_testkit::client::TestClient;
use millstream_testkit::daemon::TestProcess;
use millstream_testkit::fleet::FleetEnv;
use millstream_testkit::sink::{SinkAnswer, TestSink};
use millstream_testkit::{FleetMode, TestFleet, eventually};
use serde_json::{Value, json};

/// How long anything that must happen may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) const TOKEN: &str = "tok-7Qx9-very-secret";

const SETTINGS: FleetEnv<'static> = &[
    ("MILLSTREAM_WORKER__LEASE", "3s"),
    ("MILLSTREAM_WORKER__LOCK_TTL", "1500ms"),
    ("MILLSTREAM_WORKER__RECLAIM_IDLE", "2s"),
    ("MILLSTREAM_WORKER__OVERDUE", "1s"),
    ("MILLSTREAM_LOG_FORMAT", "text"),
    ("MILLSTREAM_SECRET_PAYMENTS_TOKEN", TOKEN),
];

pub(crate) struct Shop {
    pub(crate) fleet: TestFleet,
    pub(crate) api: TestClient,
    pub(crate) payments: TestSink,
    pub(crate) others: Vec<TestProcess>,
}

/// In one process (the Rust worker is the engine), or as a fleet (two Rust workers beside an ingress and a
/// worker of the engine).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Built {
    Embedded,
    Fleet,
}

impl Shop {
    pub(crate) async fn open(built: Built) -> Self {
        Self::staffed(built, env!("CARGO_BIN_EXE_checkout")).await
    }

    /// The Rust workers are of this program.
    pub(crate) async fn staffed(built: Built, own: &str) -> Self {
        let mut others = Vec::new();
        let fleet = match built {
            Built::Embedded => TestFleet::start_own(own, SETTINGS).await,
            Built::Fleet => {
                let fleet = TestFleet::start(FleetMode::Fleet { workers: 1 }, millstream(), SETTINGS).await;
                others.push(fleet.start_other("rust-0", own, &[], &[]));
                others.push(fleet.start_other("rust-1", own, &[], &[]));
                fleet
            }
        };
        let api = fleet.client();
        for file in ["parcel.yaml", "checkout.yaml"] {
            apply(&api, &std::fs::read_to_string(examples().join(file)).unwrap()).await;
        }
        Self { fleet, api, payments: TestSink::start().await, others }
    }

    /// One more Python worker; answers its index among the others.
    pub(crate) fn hire(&mut self, name: &str) -> usize {
        let script = examples().join("python/worker.py");
        let script = script.display().to_string();
        let worker = self.fleet.start_other(name, "python3", &["-u", &script], &[("WORKER_NAME", name)]);
        self.others.push(worker);
        self.others.len() - 1
    }

    /// The payment service answers these, one after the other, then 200.
    pub(crate) fn answering(&self, answers: impl IntoIterator<Item = SinkAnswer>) {
        self.payments.set_answers("/charges", answers);
    }

    pub(crate) async fn order(&self, id: &str, items: &[&str]) {
        let port: u16 =
            self.payments.url("").rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
        let input = json!({"order_id": id, "items": items, "total": 42, "payments_port": port});
        let start = json!({
            "definition": "checkout", "execution_id": id, "input": input,
            "events": [{"name": "checkout"}],
        });
        self.api.post("/v1/executions", &start).await.expect_status(201);
    }

    pub(crate) async fn execution(&self, id: &str) -> Value {
        self.api.get(&format!("/v1/executions/{id}")).await.expect_status(200)
    }

    /// Waits until the execution is in this state and returns it.
    pub(crate) async fn reaches(&self, id: &str, state: &str) -> Value {
        eventually(SOON, || async {
            let execution = self.execution(id).await;
            if execution["state"] == state { Ok(execution) } else { Err(execution.to_string()) }
        })
        .await
    }

    /// The newest action of this name.
    pub(crate) async fn action(&self, id: &str, action: &str) -> Option<Value> {
        let actions =
            self.api.get(&format!("/v1/executions/{id}/actions?limit=100")).await.expect_status(200);
        actions["items"].as_array().unwrap().iter().rfind(|item| item["action"] == action).cloned()
    }

    pub(crate) async fn action_is(&self, id: &str, action: &str, status: &str) -> Value {
        eventually(SOON, || async {
            match self.action(id, action).await {
                Some(found) if found["status"] == status => Ok(found),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}

pub(crate) async fn apply(api: &TestClient, source: &str) {
    let reply = api.post_raw("/v1/definitions", "application/yaml", source.to_owned()).await;
    assert!(reply.status == 201 || reply.status == 200, "{reply:?}");
}

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The engine's own binary, which a run of all tests has built beside this example's.
fn millstream() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_checkout")).with_file_name("millstream");
    assert!(path.exists(), "{} is missing: cargo build --workspace --bins", path.display());
    path
}

/// Neither in an answer about this execution nor in a log.
pub(crate) async fn no_secret_anywhere(shop: &Shop, id: &str) {
    for path in [
        format!("/v1/executions/{id}"),
        format!("/v1/executions/{id}/actions"),
        format!("/v1/executions/{id}/history"),
        format!("/v1/events?execution_id={id}"),
        "/v1/definitions/checkout".to_owned(),
        "/v1/incidents".to_owned(),
        "/metrics".to_owned(),
    ] {
        let reply = shop.api.get(&path).await;
        assert!(!reply.body.contains(TOKEN), "{path}: {}", reply.body);
    }
    assert!(!shop.fleet.all_outputs().contains(TOKEN), "a log holds the secret");
}
