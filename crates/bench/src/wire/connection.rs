//! One keep-alive HTTP connection with reused buffers.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::answer::{ConnectionFate, ParsedAnswer, WireBody, parse_answer};
use super::{ServerAddress, WireAnswer};
use crate::error::{BenchError, BenchResult};

const BUFFER: usize = 16 * 1024;
/// A connection idle for longer is reopened: the peer may be about to close it.
const FRESH: Duration = Duration::from_secs(5);

/// Backoff of a call after backpressure (429, 503).
const BACK_OFF: Duration = Duration::from_millis(5);

/// A connection that reopens after the peer has closed it.
#[derive(Debug)]
pub(crate) struct BenchConnection {
    address: ServerAddress,
    stream: Option<TcpStream>,
    bytes: Vec<u8>,
    filled: usize,
    /// Bytes of the previous answer.
    consumed: usize,
    used: Instant,
}

/// A status, and a body that is valid until the next request.
#[derive(Debug)]
pub(crate) struct BenchReply<'a> {
    pub(crate) status: u16,
    pub(crate) body: std::borrow::Cow<'a, [u8]>,
}

/// A call with the expected answer.
#[derive(Debug)]
pub(crate) struct TimedCall {
    pub(crate) at: Instant,
    /// Latency from its first send.
    pub(crate) took: Duration,
    pub(crate) pushed_back: usize,
    pub(crate) body: Vec<u8>,
}

impl BenchConnection {
    pub(crate) fn to_server(address: &ServerAddress) -> Self {
        Self {
            address: address.clone(),
            stream: None,
            bytes: vec![0; BUFFER],
            filled: 0,
            consumed: 0,
            used: Instant::now(),
        }
    }

    /// Connects now rather than with the first request.
    pub(crate) async fn open(address: &ServerAddress) -> io::Result<Self> {
        let mut connection = Self::to_server(address);
        connection.connect().await?;
        Ok(connection)
    }

    async fn connect(&mut self) -> io::Result<()> {
        let stream = TcpStream::connect(self.address.authority()).await?;
        stream.set_nodelay(true)?;
        (self.stream, self.filled, self.consumed) = (Some(stream), 0, 0);
        Ok(())
    }

    /// Sends complete request bytes and reads the answer.
    pub(crate) async fn exchange_request(&mut self, request: &[u8]) -> io::Result<BenchReply<'_>> {
        if self.stream.is_none() || self.used.elapsed() > FRESH {
            self.connect().await?;
        }
        let attempt = self.attempt_exchange(request).await;
        self.used = Instant::now();
        match attempt {
            Ok(answer) => {
                if answer.connection == ConnectionFate::Close {
                    self.stream = None;
                }
                self.consumed = answer.used;
                let body = match answer.body {
                    WireBody::Within(range) => self.bytes[range].into(),
                    WireBody::Joined(joined) => joined.into(),
                };
                Ok(BenchReply { status: answer.status, body })
            }
            Err(error) => {
                self.stream = None;
                Err(error)
            }
        }
    }

    async fn attempt_exchange(&mut self, request: &[u8]) -> io::Result<WireAnswer> {
        let Some(stream) = self.stream.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
        // One request is in flight at a time: bytes after an answer do not belong to a request.
        (self.filled, self.consumed) = (0, 0);
        stream.write_all(request).await?;
        loop {
            match parse_answer(&self.bytes[..self.filled]).map_err(io::Error::other)? {
                ParsedAnswer::Complete(answer) => return Ok(answer),
                ParsedAnswer::Incomplete { total } if total > self.bytes.len() => {
                    self.bytes.resize(total.next_power_of_two(), 0)
                }
                ParsedAnswer::Incomplete { .. } if self.filled == self.bytes.len() => {
                    self.bytes.resize(self.bytes.len() * 2, 0);
                }
                ParsedAnswer::Incomplete { .. } => {}
            }
            let read = stream.read(&mut self.bytes[self.filled..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += read;
        }
    }

    /// GETs a path; only 200 is accepted.
    pub(crate) async fn get(&mut self, path: &str) -> BenchResult<Vec<u8>> {
        let request = format!("GET {path} HTTP/1.1\r\n{}\r\n", self.address.headers());
        self.require_status(&request.into_bytes(), path, &[200]).await
    }

    /// POSTs a body; only these statuses are accepted.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        media: &str,
        body: &[u8],
        good: &[u16],
    ) -> BenchResult<Vec<u8>> {
        let mut request = Vec::new();
        write_request(&mut request, &self.address, ("POST", path), media, body);
        self.require_status(&request, path, good).await
    }

    /// PUTs a document; only these statuses are accepted.
    pub(crate) async fn put(&mut self, path: &str, body: &[u8], good: &[u16]) -> BenchResult<Vec<u8>> {
        let mut request = Vec::new();
        write_request(&mut request, &self.address, ("PUT", path), "application/json", body);
        self.require_status(&request, path, good).await
    }

    /// DELETEs a path; only 204 is accepted.
    pub(crate) async fn delete(&mut self, path: &str) -> BenchResult<()> {
        let request = format!("DELETE {path} HTTP/1.1\r\n{}\r\n", self.address.headers());
        self.require_status(&request.into_bytes(), path, &[204]).await.map(|_| ())
    }

    /// POSTs a JSON body, retries after 429 and 503 (backpressure), and then accepts only these statuses.
    /// `buffer` is for the request.
    pub(crate) async fn call_with_retry(
        &mut self,
        buffer: &mut Vec<u8>,
        path: &str,
        body: &[u8],
        good: &[u16],
    ) -> BenchResult<TimedCall> {
        buffer.clear();
        write_request(buffer, &self.address, ("POST", path), "application/json", body);
        let (began, mut pushed_back) = (Instant::now(), 0);
        loop {
            let reply = self.exchange_request(buffer).await;
            let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
            let at = Instant::now();
            match reply.status {
                429 | 503 => pushed_back += 1,
                status if good.contains(&status) => {
                    let body = reply.body.into_owned();
                    return Ok(TimedCall { at, took: at - began, pushed_back, body });
                }
                status => {
                    let body = String::from_utf8_lossy(&reply.body);
                    return Err(BenchError::Wrong(format!(
                        "{path} answered {status}: {}",
                        short_excerpt(&body)
                    )));
                }
            }
            tokio::time::sleep(BACK_OFF).await;
        }
    }

    async fn require_status(&mut self, request: &[u8], path: &str, good: &[u16]) -> BenchResult<Vec<u8>> {
        let what = self.address.url();
        let reply =
            self.exchange_request(request).await.map_err(|error| BenchError::unreachable(&what, error))?;
        if good.contains(&reply.status) {
            return Ok(reply.body.into_owned());
        }
        let body = String::from_utf8_lossy(&reply.body);
        Err(BenchError::Wrong(format!("{what}{path} answered {}: {}", reply.status, short_excerpt(&body))))
    }
}

fn write_request(
    into: &mut Vec<u8>,
    address: &ServerAddress,
    (method, path): (&str, &str),
    media: &str,
    body: &[u8],
) {
    let (headers, length) = (address.headers(), body.len());
    // Writing to a Vec does not fail.
    let _ = write!(
        into,
        "{method} {path} HTTP/1.1\r\n{headers}Content-Type: {media}\r\nContent-Length: {length}\r\n\r\n"
    );
    into.extend_from_slice(body);
}

/// Shortens a text for an error message.
pub(crate) fn short_excerpt(text: &str) -> String {
    const LONGEST: usize = 400;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
