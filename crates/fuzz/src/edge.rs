//! Byte streams for the edge of an ingress: real requests of HTTP/1.1, HTTP/2 and gRPC, and mutations of them.
//!
//! Two kinds of mutation, chosen by the seed: bytes of a whole stream, which breaks its framing, and parts of
//! a request (path, header values, message) inside correct frames, which passes the parsers. The caller
//! checks the guarantees: no 5xx, no panic, the process lives, and its memory does not grow.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::mutate::{FuzzRandom, mutate_input};

/// Words that the protocols and the API care about.
const WORDS: &[&str] = &[
    "HTTP/1.1",
    "HTTP/1.0",
    "\r\n",
    "\r\n\r\n",
    ":",
    " ",
    "chunked",
    "transfer-encoding: ",
    "content-length: ",
    "0",
    "-1",
    "99999999999999999999",
    "expect: 100-continue",
    "host: ",
    "authorization: Bearer ms_",
    "%00",
    "%ff",
    "..",
    "?",
    "&",
    "=",
    "#",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "null",
    "1e999",
    "application/grpc",
    "application/json",
    "application/x-ndjson",
    "te: trailers",
    "grpc-timeout: 1n",
    "upgrade: h2c",
    "idempotency-key: ",
    "prefer: wait=1",
    "/v1/",
    "/healthz",
    "/metrics",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

const PATHS: &[&str] = &[
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/executions",
    "/v1/executions/o-1",
    "/v1/executions/o-1/events",
    "/v1/executions?limit=1",
    "/v1/events",
    "/v1/definitions",
    "/v1/graphs",
    "/v1/graphs/g-1/nodes",
    "/v1/devices/d",
    "/v1/runs",
    "/v1/queues/review/items",
    "/v1/tasks/lease",
    "/v1/workers",
];
const CALLS: &[&str] = &[
    "/millstream.v1.WorkflowService/CreateWorkflow",
    "/millstream.v1.WorkflowService/GetWorkflow",
    "/millstream.v1.WorkflowService/ListWorkflows",
    "/millstream.v1.TaskService/LeaseTasks",
    "/millstream.v1.DeviceService/RegisterDevice",
    "/millstream.v1.ExecutorService/ListExecutors",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/no.such.Service/Method",
];
const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    r#"{"name":"note","payload":{"a":[1,2.5,null,"x"]}}"#,
    r#"{"definition":"order","execution_id":"o-1"}"#,
    "{\"name\":\"a\"}\n{\"name\":\"b\"}\n",
    "name: order\ninitial: a\nstates: { a: { final: true } }\n",
];
const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "get", "CONNECT"];
const MEDIA: &[&str] = &["application/json", "application/x-ndjson", "application/yaml", "text/plain", ""];

/// Generates inputs; the same seed gives the same inputs.
#[derive(Debug, Clone)]
pub struct EdgeInputs {
    chooser: FuzzRandom,
    key: String,
    seeds: Vec<Vec<u8>>,
}

impl EdgeInputs {
    /// Some of the requests carry `key`.
    pub fn seeded(seed: u64, key: &str) -> Self {
        let mut inputs = Self { chooser: FuzzRandom::seeded(seed), key: key.to_owned(), seeds: Vec::new() };
        inputs.seeds = (0..64)
            .map(|n| if n % 2 == 0 { inputs.http1_request() } else { inputs.http2_request() })
            .collect();
        inputs
    }

    /// The bytes that a client sends on one connection.
    pub fn next_input(&mut self) -> Vec<u8> {
        match self.chooser.below(4) {
            0 => self.http1_request(),
            1 => self.http2_request(),
            _ => mutate_input(&mut self.chooser, &self.seeds, WORDS),
        }
    }

    /// Requests of HTTP/1.1 on one connection.
    fn http1_request(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..=self.chooser.below(3) {
            let (method, path) = (self.one_of(METHODS), self.random_part(PATHS));
            let (media, body) = (self.one_of(MEDIA), self.random_part(BODIES));
            let mut head = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", method, lossy_text(&path));
            if let Some(key) = self.authorization() {
                head += &format!("authorization: {key}\r\n");
            }
            if !media.is_empty() {
                head += &format!("content-type: {media}\r\n");
            }
            bytes.extend(head.bytes());
            if self.chooser.below(3) == 0 {
                bytes.extend(format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()).bytes());
                bytes.extend(&body);
                bytes.extend(b"\r\n0\r\n\r\n");
            } else {
                bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
                bytes.extend(&body);
            }
        }
        bytes
    }

    /// Requests of HTTP/2, most of them calls of gRPC, on one connection.
    fn http2_request(&mut self) -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(http2_frame(4, 0, 0, &[]));
        for n in 0..=self.chooser.below(4) {
            let stream = u32::try_from(2 * n + 1).unwrap_or(1);
            let is_call = self.chooser.below(4) > 0;
            let path = if is_call { self.random_part(CALLS) } else { self.random_part(PATHS) };
            let mut block = Vec::new();
            hpack_literal(&mut block, b":method", if is_call { b"POST" } else { b"GET" });
            hpack_literal(&mut block, b":scheme", b"http");
            hpack_literal(&mut block, b":authority", b"localhost");
            hpack_literal(&mut block, b":path", &path);
            if is_call {
                hpack_literal(&mut block, b"content-type", b"application/grpc");
                hpack_literal(&mut block, b"te", b"trailers");
            }
            if let Some(key) = self.authorization() {
                hpack_literal(&mut block, b"authorization", key.as_bytes());
            }
            bytes.extend(http2_frame(1, 4, stream, &block));
            let message = self.grpc_message();
            let ends = u8::from(self.chooser.below(4) > 0);
            bytes.extend(http2_frame(0, ends, stream, &message));
            match self.chooser.below(8) {
                0 => bytes.extend(http2_frame(3, 0, stream, &8_u32.to_be_bytes())),
                1 => bytes.extend(http2_frame(6, 0, 0, &[0; 8])),
                2 => bytes.extend(http2_frame(8, 0, stream, &1_u32.to_be_bytes())),
                3 => bytes.extend(http2_frame(9, 4, stream, &[])),
                _ => {}
            }
        }
        bytes
    }

    /// A message as gRPC frames it; its fields are random.
    fn grpc_message(&mut self) -> Vec<u8> {
        let mut fields = Vec::new();
        for _ in 0..self.chooser.below(5) {
            let value = self.random_part(BODIES);
            let tag = u8::try_from(self.chooser.below(16) * 8 + 2).unwrap_or(2);
            fields.push(tag);
            fields.push(u8::try_from(value.len().min(127)).unwrap_or(0));
            fields.extend(value.iter().take(127));
        }
        let mut message = vec![u8::from(self.chooser.below(16) == 0)];
        message.extend(u32::try_from(fields.len()).unwrap_or(0).to_be_bytes());
        message.extend(fields);
        message
    }

    fn authorization(&mut self) -> Option<String> {
        match self.chooser.below(4) {
            0 => None,
            1 => Some(format!("Bearer ms_{}", self.chooser.below(1000))),
            _ => Some(format!("Bearer {}", self.key)),
        }
    }

    fn one_of(&mut self, from: &'static [&'static str]) -> &'static str {
        self.chooser.pick(from).copied().unwrap_or_default()
    }

    /// One of these, sometimes mutated.
    fn random_part(&mut self, from: &'static [&'static str]) -> Vec<u8> {
        let part = self.one_of(from).as_bytes().to_vec();
        if self.chooser.below(3) > 0 { part } else { mutate_input(&mut self.chooser, &[part], WORDS) }
    }
}

/// Text without characters that would end its line.
fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|one| !one.is_control() && *one != ' ').collect()
}

fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An HPACK header field without table references.
fn hpack_literal(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    for part in [name, value] {
        let part = &part[..part.len().min(16 * 1024)];
        match u8::try_from(part.len()) {
            Ok(length) if length < 127 => block.push(length),
            _ => {
                block.push(127);
                let mut rest = part.len() - 127;
                while rest >= 128 {
                    block.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
                    rest /= 128;
                }
                block.push(u8::try_from(rest).unwrap_or(0));
            }
        }
        block.extend(part);
    }
}

/// Sends the bytes on a separate connection and reads until the other side is silent or has closed.
pub fn send_input(address: SocketAddr, input: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_millis(30)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    // A peer that closes early has already sent its answer.
    let _ = stream.write_all(input);
    let mut answer = Vec::new();
    let _ = stream.take(256 * 1024).read_to_end(&mut answer);
    Ok(answer)
}

/// Whether an HTTP/1.1 answer reports a server error.
pub fn is_server_error(answer: &[u8]) -> bool {
    answer.windows(10).any(|bytes| bytes == b"HTTP/1.1 5")
}
