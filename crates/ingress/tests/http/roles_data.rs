//! Data of one tenant for every call of the role table: one of each resource with an id, and the ids.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Request;
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::error_class::ErrorClass;
use millstream_model::status::Role;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, get, header, open_options, post, yaml};
use crate::engine::{Engine, TOKEN};

/// The tenant that owns the data, and one without data.
pub(crate) const OWNER: &str = "default";
pub(crate) const STRANGER: &str = "stranger";

/// Part of every text that the owner stores.
pub(crate) const MARK: &str = "mark-of-the-owner";
/// Prefix of every name that the owner gives.
pub(crate) const PREFIX: &str = "zz-";

const DEFINITION: &str = r#"
name: zz-order
initial: received
correlate: context.order
states:
  received:
    on:
      zz-resize: { to: working, do: [zz-resize] }
      zz-charge: { to: working, do: [zz-charge] }
      zz-expire: { to: done }
    after: [ { in: 1h, send: zz-expire } ]
  working:
    on: { zz-note: {}, zz-expire: { to: done } }
    after: [ { in: 1h, send: zz-expire } ]
  done: { final: true }
actions:
  zz-resize: { task: { type: zz-resize, input: { mark: context.mark } } }
  zz-charge: { http: { method: POST, url: "http://127.0.0.1:9/charge", body: { mark: context.mark } } }
"#;

pub(crate) fn secret(tenant: &str, role: Role) -> String {
    format!("ms_{tenant}_{role}")
}

pub(crate) fn keyed(request: Request<Body>, secret: &str) -> Request<Body> {
    header(request, "authorization", &format!("Bearer {secret}"))
}

pub(crate) fn put(path: &str, body: &Value) -> Request<Body> {
    let request = Request::put(path).header("content-type", "application/json");
    request.body(Body::from(body.to_string())).unwrap()
}

/// An ingress with a key of every role in both tenants, and the owner's data.
pub(crate) struct OwnedData {
    pub(crate) bench: Bench,
    /// By the segment of a path that precedes the id.
    ids: BTreeMap<&'static str, String>,
    /// The token of the leased task.
    pub(crate) task_token: i64,
    /// The token of the device's seat in the run.
    pub(crate) seat_token: i64,
    /// The token of the attempt at the graph's node.
    pub(crate) node_token: i64,
}

impl OwnedData {
    pub(crate) async fn furnished() -> Self {
        let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
        let bench = Bench::with(options, |stores, streams| (stores, streams));
        for tenant in [OWNER, STRANGER] {
            for role in Role::ALL {
                bench.key(&secret(tenant, *role), tenant, *role).await;
            }
        }
        let named = [
            ("definitions", "zz-order"),
            ("versions", "1"),
            ("executions", "zz-execution"),
            ("tenants", OWNER),
            ("graphs", "zz-graph"),
            ("nodes", "zz-node"),
            ("executors", "zz-executor"),
            ("devices", "zz-device"),
            ("runs", "zz-run"),
            ("queues", "zz-queue"),
            // Keys with the role `work` are bound to this person.
            ("people", "ann"),
            ("items", "zz-item"),
        ];
        let ids = named.map(|(segment, id)| (segment, id.to_owned())).into();
        let mut data = Self { bench, ids, task_token: 0, seat_token: 0, node_token: TOKEN };
        data.executions().await;
        data.graph().await;
        data.device().await;
        data.people().await;
        let key = data.sent(post("/v1/keys", &json!({"name": "zz-key", "role": "read"}))).await;
        data.ids.insert("keys", text(&key["key_id"]));
        data
    }

    /// An execution whose task is leased, one whose task waits, one with an incident; and a buffered signal.
    async fn executions(&mut self) {
        self.sent(yaml("/v1/definitions", DEFINITION)).await;
        for (id, event) in
            [("zz-execution", "zz-resize"), ("zz-waiting", "zz-resize"), ("zz-failed", "zz-charge")]
        {
            let input = json!({"mark": MARK, "order": id});
            let events = [json!({"name": event, "payload": {"mark": MARK}})];
            let body =
                json!({"definition": "zz-order", "execution_id": id, "input": input, "events": events});
            self.sent(post("/v1/executions", &body)).await;
            self.bench.decide(id).await;
        }
        let wish = json!({"types": ["zz-resize"], "max": 1, "worker": "zz-worker"});
        let task = self.sent(post("/v1/tasks/lease", &wish)).await["tasks"][0].clone();
        assert!(text(&task["key"]).contains("zz-execution"), "{task}");
        self.ids.insert("tasks", text(&task["key"]));
        self.task_token = task["token"].as_i64().unwrap();
        self.bench.fail_all(ErrorClass::Status).await;
        let incident = self.sent(get("/v1/incidents")).await["items"][0].clone();
        self.ids.insert("incidents", text(&incident["incident_id"]));
        self.ids.insert("groups", text(&incident["fingerprint"]));
        self.ids.insert("events", text(&incident["event_id"]));
        let signal = json!({"correlation": "zz-absent", "name": "zz-note", "payload": {"mark": MARK}, "wait_for": "1h"});
        let signal = self.sent(post("/v1/signals", &signal)).await;
        self.ids.insert("signals", text(&signal["signal_id"]));
    }

    /// A graph with a running node that has an executor and a log line.
    async fn graph(&mut self) {
        let node = json!({"id": "zz-node", "task": {"goal": MARK}});
        let later = json!({"id": "zz-later", "parents": ["zz-node"]});
        let graph = json!({"graph_id": "zz-graph", "name": MARK, "nodes": [node, later]});
        self.sent(post("/v1/graphs", &graph)).await;
        let engine = Engine::from(&self.bench);
        engine.decide("zz-graph").await;
        engine.dispatch("zz-graph", "zz-node", "zz-executor").await;
        engine.accepted("zz-graph", "zz-node").await;
        let progress = json!({"token": TOKEN, "logs": MARK});
        self.sent(post("/v1/graphs/zz-graph/nodes/zz-node/progress", &progress)).await;
        let executor = json!({"name": "zz-executor", "address": "http://127.0.0.1:1", "capacity": 1});
        self.sent(post("/v1/executors", &executor)).await;
    }

    /// A device that is offered a run.
    async fn device(&mut self) {
        self.sent(put("/v1/devices/zz-device", &json!({"capabilities": ["zz-film"]}))).await;
        let run = json!({"run_id": "zz-run", "kind": "zz-film", "input": {"mark": MARK}});
        let run = self.sent(post("/v1/runs", &run)).await;
        self.seat_token = run["seats"][0]["token"].as_i64().unwrap_or_else(|| panic!("{run}"));
    }

    /// A person with an assignment.
    async fn people(&mut self) {
        self.sent(put("/v1/queues/zz-queue", &json!({}))).await;
        for person in ["ann", "bob"] {
            self.sent(put(&format!("/v1/people/{person}"), &json!({"skills": ["zz-skill"]}))).await;
        }
        let item = json!({"item_id": "zz-item", "payload": {"mark": MARK}});
        self.sent(post("/v1/queues/zz-queue/items", &item)).await;
        let given = self.sent(post("/v1/assignments/next", &json!({"person": "ann"}))).await;
        self.ids.insert("assignments", text(&given["assignment"]["assignment_id"]));
    }

    /// The answer to the owner's admin, which must be a success.
    async fn sent(&self, request: Request<Body>) -> Value {
        let asked = format!("{} {}", request.method(), request.uri());
        let answer = self.by(OWNER, Role::Admin, request).await;
        assert!(answer.status.is_success(), "{asked}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn by(&self, tenant: &str, role: Role, request: Request<Body>) -> Answer {
        self.bench.send(keyed(request, &secret(tenant, role))).await
    }

    /// The owner's id that follows this segment of a path.
    #[track_caller]
    pub(crate) fn id(&self, segment: &str) -> &str {
        self.ids.get(segment).unwrap_or_else(|| panic!("no data of the owner has an id after /{segment}/"))
    }

    /// The same text with every id of the owner replaced by an unused one.
    pub(crate) fn as_absent(&self, text: &str) -> String {
        let mut text = text.replace(PREFIX, "yy-");
        for (path, other) in [("/tenants/default", "/tenants/absent"), ("/people/ann", "/people/eve")] {
            text = text.replace(path, other);
        }
        for id in self.generated() {
            let (rest, last) = id.split_at(id.len() - 1);
            text = text.replace(id, &format!("{rest}{}", if last == "0" { "1" } else { "0" }));
        }
        text
    }

    /// The ids of the owner that a message contains.
    pub(crate) fn ids_in(&self, text: &str) -> String {
        let ids = self.ids.values().map(String::as_str).filter(|id| text.contains(id));
        ids.collect::<Vec<_>>().join(" ")
    }

    fn generated(&self) -> [&str; 6] {
        ["events", "signals", "incidents", "groups", "assignments", "keys"].map(|segment| self.id(segment))
    }

    /// The owner's data in `text`, apart from what was `asked`: an answer may repeat that.
    pub(crate) fn leak<'a>(&'a self, text: &str, asked: &str) -> Option<&'a str> {
        let mut rest = text.to_owned();
        let mut words: Vec<&str> = asked.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
        // The longest first: one id may be a part of another.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        for word in words.into_iter().filter(|word| word.len() > 2) {
            rest = rest.replace(word, "");
        }
        [MARK, PREFIX].into_iter().chain(self.generated()).find(|trace| rest.contains(trace))
    }
}

#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}
