//! A stub server with scripted answers, which records its requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use tokio::net::TcpListener;

/// One received request.
#[derive(Debug, Clone)]
pub(crate) struct StubRequest {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl StubRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

#[derive(Debug, Default)]
struct StubScript {
    answers: VecDeque<(u16, &'static str)>,
    asked: Vec<StubRequest>,
}

#[derive(Debug)]
pub(crate) struct StubServer {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<StubScript>>,
}

impl StubServer {
    /// Answers with these, one after the other, and then with 404.
    pub(crate) async fn answering(answers: &[(u16, &'static str)]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(StubScript {
            answers: answers.iter().copied().collect(),
            asked: Vec::new(),
        }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, script }
    }

    pub(crate) fn asked(&self) -> Vec<StubRequest> {
        self.script.lock().unwrap().asked.clone()
    }
}

async fn answer(
    State(script): State<Arc<Mutex<StubScript>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let mut script = script.lock().unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    script.asked.push(StubRequest { path: uri.path().to_owned(), headers, body });
    let (status, text) = script.answers.pop_front().unwrap_or((404, "{}"));
    let waits = if status == 429 || status == 503 { "0" } else { "" };
    (StatusCode::from_u16(status).unwrap(), [("retry-after", waits)], text)
}
