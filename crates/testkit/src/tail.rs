//! Reads server-sent events one at a time, each with a deadline.
//!
//! It does not reconnect: resumption is the subject of the tests.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::Value;

use crate::client::TestClient;

#[derive(Debug)]
pub struct TestTail {
    response: Response,
    buffer: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TailMessage {
    pub id: String,
    pub event: String,
    pub data: Value,
}

impl TestTail {
    pub async fn open(client: &TestClient, path: &str, last_event_id: Option<&str>) -> Self {
        let mut request = client.request(Method::GET, path).header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.expect("open the stream");
        assert_eq!(response.status().as_u16(), 200, "{response:?}");
        Self { response, buffer: String::new() }
    }

    /// The next message, comments skipped; `None` when the server has ended the stream.
    pub async fn next(&mut self, deadline: Duration) -> Option<TailMessage> {
        tokio::time::timeout(deadline, self.read_message())
            .await
            .unwrap_or_else(|_| panic!("no message within {deadline:?}, unfinished text: {:?}", self.buffer))
    }

    async fn read_message(&mut self) -> Option<TailMessage> {
        loop {
            while let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (message, rest) = (parse_message(block), rest.to_owned());
                self.buffer = rest;
                if message.is_some() {
                    return message;
                }
            }
            let chunk = self.response.chunk().await.expect("read the stream")?;
            self.buffer.push_str(&String::from_utf8_lossy(&chunk).replace("\r\n", "\n"));
        }
    }
}

fn parse_message(block: &str) -> Option<TailMessage> {
    let (mut id, mut event, mut data) = (String::new(), String::new(), String::new());
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut id),
            "event" => value.clone_into(&mut event),
            "data" => data.push_str(value),
            _ => {}
        }
    }
    let data = serde_json::from_str(&data).ok()?;
    Some(TailMessage { id, event, data })
}
