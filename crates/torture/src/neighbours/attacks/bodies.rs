//! Slow request bodies that hold memory: most of a batch or of an import at once, then single bytes.

use std::io;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::AttackScene;

const WITH_KEY: usize = 40;
const WITHOUT_KEY: usize = 40;
/// Imports of unknown length.
const IMPORTS: usize = 40;
const ANNOUNCED: usize = 6 * 1024 * 1024;
const AT_ONCE: usize = 4 * 1024 * 1024;

pub(super) async fn send_slow_bodies(scene: &AttackScene) {
    let mut connections = JoinSet::new();
    let queue = scene.fleet.hostile.request(Method::PUT, "/v1/queues/slow").json(&json!({}));
    scene.add_status(&queue.send().await);
    for number in 0..WITH_KEY + WITHOUT_KEY + IMPORTS {
        let scene = scene.clone();
        connections.spawn(async move {
            let body = match number {
                0..WITH_KEY => SlowBody::Events(Some(scene.fleet.keys.hostile.clone())),
                _ if number < WITH_KEY + WITHOUT_KEY => SlowBody::Events(None),
                _ => SlowBody::Import(scene.fleet.keys.hostile.clone()),
            };
            while !scene.is_over() {
                scene.add_count(body.word(), 1);
                let word = match send_slowly(&scene, &body).await {
                    Ok(answer) => format!("answered {answer}"),
                    Err(_) => "cut off".to_owned(),
                };
                scene.add_count(word, 1);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    scene.sleep_until_over().await;
    connections.shutdown().await;
}

/// A body that never ends.
enum SlowBody {
    /// A batch of events of an announced length, with a key or without.
    Events(Option<String>),
    /// An import of items in chunks.
    Import(String),
}

impl SlowBody {
    fn word(&self) -> &'static str {
        match self {
            Self::Events(_) => "bodies",
            Self::Import(_) => "imports",
        }
    }

    fn request_head(&self, host: &str) -> String {
        let authorization = |key: &String| format!("authorization: Bearer {key}\r\n");
        let (path, authorization, length) = match self {
            Self::Events(key) => {
                let key = key.as_ref().map(authorization).unwrap_or_default();
                ("/v1/events", key, format!("content-length: {ANNOUNCED}"))
            }
            Self::Import(key) => {
                ("/v1/queues/slow/items", authorization(key), "transfer-encoding: chunked".to_owned())
            }
        };
        let media = "content-type: application/x-ndjson";
        format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{authorization}{media}\r\n{length}\r\n\r\n")
    }

    /// This piece of the body in its wire format.
    fn body_piece(&self, text: &str) -> String {
        match self {
            Self::Events(_) => text.to_owned(),
            Self::Import(_) => format!("{:x}\r\n{text}\r\n", text.len()),
        }
    }

    fn body_line(&self) -> String {
        let filler = "z".repeat(8_000);
        match self {
            Self::Events(_) => {
                format!("{{\"execution_id\":\"a\",\"name\":\"tick\",\"payload\":\"{filler}\"}}\n")
            }
            Self::Import(_) => format!("{{\"payload\":\"{filler}\"}}\n"),
        }
    }

    /// Lines of the first piece. Fewer for an import: its lines are stored as they arrive.
    fn lines_at_once(&self) -> usize {
        match self {
            Self::Events(_) => AT_ONCE / self.body_line().len(),
            Self::Import(_) => 50,
        }
    }
}

/// Sends until the server answers or closes. Returns the status.
async fn send_slowly(scene: &AttackScene, body: &SlowBody) -> io::Result<String> {
    let stream = TcpStream::connect(scene.fleet.address()).await?;
    let (mut read, mut write) = stream.into_split();
    let sending = async {
        write.write_all(body.request_head(scene.fleet.address()).as_bytes()).await?;
        let line = body.body_piece(&body.body_line());
        for _ in 0..body.lines_at_once() {
            write.write_all(line.as_bytes()).await?;
        }
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            write.write_all(body.body_piece(" ").as_bytes()).await?;
        }
    };
    let mut status = [0; 12];
    tokio::select! {
        read = read.read_exact(&mut status) => {
            read?;
            Ok(String::from_utf8_lossy(&status[9..]).into_owned())
        }
        sent = sending => sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_sent_in_chunks() {
        let import = SlowBody::Import("ms_x".to_owned());
        assert!(import.request_head("h").contains("transfer-encoding: chunked"));
        assert_eq!(import.body_piece("0123456789abcdef "), "11\r\n0123456789abcdef \r\n");
    }

    #[test]
    fn slow_batch_announces_more_than_sent() {
        let batch = SlowBody::Events(None);
        assert!(batch.body_line().len() * batch.lines_at_once() < ANNOUNCED);
        assert_eq!(batch.body_piece("a"), "a");
    }
}
