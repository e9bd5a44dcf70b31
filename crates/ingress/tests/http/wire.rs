//! A client that sends raw bytes, for malformed requests, and a real listener.

use std::time::Duration;

use millstream_ingress::{IngressDeps, IngressError, IngressOptions, run_ingress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bench::{decide, deps};

/// An ingress with a socket.
pub(crate) struct Served {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) deps: IngressDeps,
    pub(crate) shutdown: CancellationToken,
    pub(crate) ended: JoinHandle<Result<(), IngressError>>,
}

pub(crate) async fn serve(options: IngressOptions) -> Served {
    serve_on(deps(), options).await
}

pub(crate) async fn serve_on(deps: IngressDeps, options: IngressOptions) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let ended = tokio::spawn(run_ingress(deps.clone(), options, listener, shutdown.clone()));
    Served { address, deps, shutdown, ended }
}

impl Served {
    pub(crate) async fn connect(&self) -> Wire {
        Wire { stream: TcpStream::connect(self.address).await.unwrap(), seen: String::new() }
    }

    /// One request on a new connection; returns the whole answer as text.
    pub(crate) async fn request(&self, method: &str, path: &str, extra: &str, body: &str) -> String {
        let mut wire = self.connect().await;
        wire.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n{extra}\r\n{body}",
            body.len()
        ))
        .await;
        wire.rest().await
    }

    pub(crate) async fn json(&self, path: &str, body: &str) -> String {
        self.request("POST", path, "content-type: application/json\r\n", body).await
    }

    /// Stores the order definition and starts an execution of it.
    pub(crate) async fn order(&self, id: &str) {
        let put = self.request(
            "POST",
            "/v1/definitions",
            "content-type: application/yaml\r\n",
            crate::bench::ORDER,
        );
        let put = put.await;
        assert!(put.starts_with("HTTP/1.1 20"), "{put}");
        let body = format!("{{\"definition\":\"order\",\"execution_id\":\"{id}\"}}");
        let started = self.json("/v1/executions", &body).await;
        assert!(started.starts_with("HTTP/1.1 201"), "{started}");
    }

    pub(crate) async fn decide(&self, id: &str) {
        decide(&self.deps.stores, &self.deps.streams, &*self.deps.clock, id).await;
    }
}

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    seen: String,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Wire {
    pub(crate) async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads until `wanted` arrives; returns everything up to its end and keeps the rest.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(wanted) {
                let rest = self.seen.split_off(at + wanted.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(self.more().await, "the connection ended before {wanted:?}: {}", self.seen);
        }
    }

    /// Everything until the other side closes.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        std::mem::take(&mut self.seen)
    }

    /// Sends `piece` repeatedly at this pace until the other side closes; returns its answer.
    pub(crate) async fn trickle(&mut self, piece: &str, pace: Duration, bound: Duration) -> String {
        let (mut reader, mut writer) = self.stream.split();
        let sending = async {
            let mut pace = tokio::time::interval(pace);
            // A closed connection is noticed by a write, but not by the first one.
            while writer.write_all(piece.as_bytes()).await.is_ok() {
                pace.tick().await;
            }
        };
        let mut answer = Vec::new();
        let listening = async {
            // The end may come as a reset: an answer before it counts.
            let _ = reader.read_to_end(&mut answer).await;
        };
        let ended = tokio::time::timeout(bound, async {
            tokio::select! {
                () = listening => {}
                () = sending => {}
            }
        });
        assert!(ended.await.is_ok(), "the connection is still open after {bound:?}");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Whether the other side closes the connection of a client that sends this forever and never reads.
    pub(crate) async fn is_cut_off_while_sending(&mut self, bytes: &str, bound: Duration) -> bool {
        let sending = async { while self.stream.write_all(bytes.as_bytes()).await.is_ok() {} };
        tokio::time::timeout(bound, sending).await.is_ok()
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing came; so far: {}", self.seen)).unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        read > 0
    }
}
