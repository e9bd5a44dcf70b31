//! A local HTTP target for actions: it records every call and answers by script.
//!
//! The first answers of a path's script are used up in order and its last one repeats; a path
//! without a script answers 200 `{}`. It refuses to judge: tests look at [`TestSink::recorded_calls`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct TestSink {
    base: String,
    shared: Arc<TestSinkState>,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
pub struct SinkRequest {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
    pub at: Instant,
}

#[derive(Debug, Clone)]
pub enum SinkAnswer {
    Status(u16),
    Json(u16, Value),
    /// A status with one header, such as `Retry-After` or `Location`.
    Header(u16, &'static str, String),
    Text(u16, String),
    /// A text of a content type, byte for byte.
    Kind(u16, &'static str, String),
    /// Echoes the `Authorization` header and the body of the call.
    Echo(u16),
    /// A JSON text of this many bytes.
    Large(u16, usize),
    /// An endless body, one byte at a time.
    Trickle(u16),
    /// Accepts the call and keeps it until [`TestSink::release_held`], then answers with this status.
    Hold(u16),
}

#[derive(Debug)]
struct TestSinkState {
    scripts: Mutex<BTreeMap<String, VecDeque<SinkAnswer>>>,
    calls: Mutex<Vec<SinkRequest>>,
    released: watch::Sender<bool>,
}

impl TestSink {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the sink");
        let base = format!("http://{}", listener.local_addr().expect("the sink's address"));
        let shared = Arc::new(TestSinkState {
            scripts: Mutex::default(),
            calls: Mutex::default(),
            released: watch::Sender::new(false),
        });
        let app = Router::new().fallback(answer_request).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("serve the sink") });
        Self { base, shared, server }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn set_answers(&self, path: &str, answers: impl IntoIterator<Item = SinkAnswer>) {
        self.shared.scripts.lock().unwrap().insert(path.into(), answers.into_iter().collect());
    }

    /// Releases every held call, and holds no later one.
    pub fn release_held(&self) {
        self.shared.released.send_replace(true);
    }

    pub fn recorded_calls(&self) -> Vec<SinkRequest> {
        self.shared.calls.lock().unwrap().clone()
    }

    pub fn calls_to(&self, path: &str) -> Vec<SinkRequest> {
        self.recorded_calls().into_iter().filter(|call| call.path == path).collect()
    }
}

impl Drop for TestSink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl SinkRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.body))
    }
}

async fn answer_request(State(shared): State<Arc<TestSinkState>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (path, headers) = (parts.uri.path().to_owned(), parts.headers);
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    shared.calls.lock().unwrap().push(SinkRequest {
        method: parts.method.to_string(),
        path: path.clone(),
        headers: headers.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
        at: Instant::now(),
    });
    let next = next_answer(&mut shared.scripts.lock().unwrap(), &path);
    match next {
        SinkAnswer::Kind(status, kind, text) => of_kind(status, kind, Body::from(text)),
        SinkAnswer::Text(status, text) => of_kind(status, "text/plain", Body::from(text)),
        SinkAnswer::Echo(status) => {
            let told = headers.get("authorization").and_then(|value| value.to_str().ok());
            json_response(
                status,
                &serde_json::json!({ "authorization": told, "body": String::from_utf8_lossy(&body) }),
            )
        }
        SinkAnswer::Large(status, bytes) => {
            of_kind(status, "application/json", Body::from(format!("\"{}\"", "x".repeat(bytes))))
        }
        SinkAnswer::Trickle(status) => of_kind(status, "text/plain", endless_body()),
        SinkAnswer::Status(status) => json_response(status, &Value::Object(serde_json::Map::new())),
        SinkAnswer::Json(status, value) => json_response(status, &value),
        SinkAnswer::Header(status, name, value) => {
            Response::builder().status(status).header(name, value).body(Body::empty()).unwrap()
        }
        SinkAnswer::Hold(status) => {
            let mut released = shared.released.subscribe();
            drop(released.wait_for(|released| *released).await);
            json_response(status, &Value::Object(serde_json::Map::new()))
        }
    }
}

fn next_answer(scripts: &mut BTreeMap<String, VecDeque<SinkAnswer>>, path: &str) -> SinkAnswer {
    let Some(script) = scripts.get_mut(path) else { return SinkAnswer::Status(200) };
    match (script.len(), script.front()) {
        (0 | 1, last) => last.cloned().unwrap_or(SinkAnswer::Status(200)),
        (_, _) => script.pop_front().unwrap_or(SinkAnswer::Status(200)),
    }
}

fn json_response(status: u16, value: &Value) -> Response<Body> {
    of_kind(status, "application/json", Body::from(value.to_string()))
}

fn of_kind(status: u16, kind: &str, body: Body) -> Response<Body> {
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}

fn endless_body() -> Body {
    let drops = tokio::time::interval(Duration::from_millis(20));
    Body::from_stream(futures::stream::unfold(drops, async |mut drops| {
        drops.tick().await;
        Some((Ok::<_, std::io::Error>("."), drops))
    }))
}
