//! Target of HTTP actions: a server in this process that answers 200, at once or after a delay.
//!
//! It records the first request for each number in `/{number}`: the start of an action, seen from outside.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::error::{BenchError, BenchResult};
use crate::wire::find_bytes;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\ntrue";
/// Maximum length of a request; longer ones are not ours.
const LONGEST: usize = 64 * 1024;

/// A running sink. It ends with the process.
#[derive(Debug, Clone)]
pub(crate) struct BenchSink {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Option<Instant>>>>,
}

impl BenchSink {
    /// Listens on loopback, on a thread of its own; every answer is delayed by `wait`.
    pub(crate) async fn open(wait: Duration) -> BenchResult<Self> {
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").map_err(BenchError::machine_error("open the sink"))?;
        listener.set_nonblocking(true).map_err(BenchError::machine_error("open the sink"))?;
        let address = listener.local_addr().map_err(BenchError::machine_error("open the sink"))?;
        let sink = Self { address, arrivals: Arc::default() };
        let serving = sink.clone();
        std::thread::Builder::new()
            .name("sink".to_owned())
            .spawn(move || serving.serve_connections(listener, wait))
            .map_err(BenchError::machine_error("start the sink's thread"))?;
        Ok(sink)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Resets the arrivals; from now on, numbers below `count` are recorded.
    pub(crate) fn expect_numbers(&self, count: usize) {
        *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner) = vec![None; count];
    }

    /// Time of the first request for each number.
    pub(crate) fn arrivals(&self) -> Vec<Option<Instant>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn serve_connections(self, listener: std::net::TcpListener, wait: Duration) {
        // Without a runtime there are no answers: the actions fail, and the run with them.
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(self.clone().serve_connection(stream, wait));
            }
        });
    }

    async fn serve_connection(self, mut stream: TcpStream, wait: Duration) {
        let _ = stream.set_nodelay(true);
        let mut bytes = Vec::with_capacity(4096);
        loop {
            while let Some((number, used)) = parse_request(&bytes) {
                self.record_arrival(number);
                bytes.drain(..used);
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                if stream.write_all(ANSWER).await.is_err() {
                    return;
                }
            }
            if bytes.len() > LONGEST || !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
                return;
            }
        }
    }

    fn record_arrival(&self, number: Option<usize>) {
        let now = Instant::now();
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = number.and_then(|number| arrivals.get_mut(number)) {
            slot.get_or_insert(now);
        }
    }
}

/// The number in the path and the length of a complete request.
fn parse_request(bytes: &[u8]) -> Option<(Option<usize>, usize)> {
    let head = find_bytes(bytes, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let mut lines = text.lines();
    let path = lines.next()?.split(' ').nth(1)?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Some(0), |(_, value)| {
            value.trim().parse::<usize>().ok().filter(|length| *length <= LONGEST)
        })?;
    if bytes.len() < head + length {
        return None;
    }
    Some((path.trim_start_matches('/').parse().ok(), head + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sink_request_is_complete_with_body() {
        let text = b"POST /17 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcPOST";
        assert_eq!(parse_request(text), Some((Some(17), text.len() - 4)));
        assert_eq!(parse_request(&text[..text.len() - 5]), None);
        assert_eq!(parse_request(b"GET /none HTTP/1.1\r\n\r\n"), Some((None, 22)));
        assert_eq!(parse_request(b"GET /1 HTTP/1.1\r\ncontent-length: many\r\n\r\n"), None);
        assert_eq!(parse_request(b"\xff\r\n\r\n"), None);
    }

    #[tokio::test]
    async fn sink_records_first_arrival() {
        let sink = BenchSink::open(Duration::ZERO).await.unwrap();
        sink.expect_numbers(3);
        let address = crate::wire::ServerAddress::parse_url(&sink.url(), "").unwrap();
        let mut connection = crate::wire::BenchConnection::to_server(&address);
        for path in ["/1", "/1", "/7", "/x"] {
            assert_eq!(connection.get(path).await.unwrap(), b"true");
        }
        let seen: Vec<bool> = sink.arrivals().iter().map(Option::is_some).collect();
        assert_eq!(seen, [false, true, false]);
    }
}
