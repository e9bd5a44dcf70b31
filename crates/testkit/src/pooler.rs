//! A pooler in transaction mode in front of PostgreSQL: the next transaction of a client goes to another server process.
//!
//! Real poolers swap server processes under load; this one swaps after every transaction, or uses one process
//! for all clients, so that tests do not depend on load. It implements the part of the protocol that a client
//! with trust authentication needs.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

const SSL_REQUEST: [u8; 4] = [0x04, 0xd2, 0x16, 0x2f];

/// Treatment of the `options` that a client sends when it connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupOptions {
    Forwarded,
    /// As PgBouncer does with `ignore_startup_parameters = options`.
    Dropped,
    /// The same in session mode: a client keeps its server process.
    DroppedInSessionMode,
    /// As PgBouncer does by default.
    Refused,
    /// To one server process, which all clients share transaction by transaction.
    ForwardedToOneProcess,
}

/// Accepts until it is dropped.
#[derive(Debug)]
pub struct TestPooler {
    accepting: JoinHandle<()>,
}

impl TestPooler {
    /// Starts a pooler in front of the server of `postgres://user@host:port/database`; returns the URL
    /// through it.
    pub async fn in_front_of(url: &str, options: StartupOptions) -> (Self, String) {
        let server = url.split(['@', '/']).nth(3).expect("a URL with a user, a host and a port").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen on loopback");
        let through = url.replace(&server, &listener.local_addr().expect("an address").to_string());
        let shared = Arc::new(Mutex::new(None));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, shared) = (server.clone(), shared.clone());
                tokio::spawn(async move { serve_client(client, &server, options, &shared).await });
            }
        });
        (Self { accepting }, through)
    }
}

impl Drop for TestPooler {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A server process, and how it greeted its first client.
type SharedProcess = Option<(TcpStream, Vec<u8>)>;

async fn serve_client(
    mut client: TcpStream,
    server: &str,
    options: StartupOptions,
    shared: &Mutex<SharedProcess>,
) -> io::Result<()> {
    let startup = read_startup(&mut client).await?;
    let startup = match options {
        StartupOptions::Forwarded => startup,
        StartupOptions::Dropped | StartupOptions::DroppedInSessionMode => without_options(&startup),
        StartupOptions::Refused => return client.write_all(&refusal_of_options()).await,
        StartupOptions::ForwardedToOneProcess => {
            return serve_in_turns(client, server, &startup, shared).await;
        }
    };
    let (first, greeting) = start_process(server, &startup).await?;
    let mut backends = [first, start_process(server, &startup).await?.0];
    client.write_all(&greeting).await?;
    let (mut current, mut asked) = (0, Vec::new());
    loop {
        let kind = read_message(&mut client, &mut asked).await?;
        if kind == b'X' {
            return Ok(());
        }
        // A simple query, or the end of a group of messages.
        if matches!(kind, b'Q' | b'S') {
            backends[current].write_all(&asked).await?;
            asked.clear();
            let mut answer = Vec::new();
            let status = read_until_ready(&mut backends[current], &mut answer).await?;
            client.write_all(&answer).await?;
            if status == b'I' && options != StartupOptions::DroppedInSessionMode {
                current = 1 - current;
            }
        }
    }
}

async fn start_process(server: &str, startup: &[u8]) -> io::Result<(TcpStream, Vec<u8>)> {
    let mut backend = TcpStream::connect(server).await?;
    let length = u32::try_from(startup.len() + 4).expect("a short message");
    backend.write_all(&length.to_be_bytes()).await?;
    backend.write_all(startup).await?;
    let mut greeting = Vec::new();
    read_until_ready(&mut backend, &mut greeting).await?;
    Ok((backend, greeting))
}

/// The process is the client's from the first message of a transaction to its end.
async fn serve_in_turns(
    mut client: TcpStream,
    server: &str,
    startup: &[u8],
    shared: &Mutex<SharedProcess>,
) -> io::Result<()> {
    let mut process = shared.lock().await;
    if process.is_none() {
        *process = Some(start_process(server, startup).await?);
    }
    let greeting = process.iter().flat_map(|(_, greeting)| greeting.clone()).collect::<Vec<u8>>();
    drop(process);
    client.write_all(&greeting).await?;
    let (mut turn, mut asked) = (None, Vec::new());
    loop {
        let kind = read_message(&mut client, &mut asked).await?;
        if kind == b'X' {
            return Ok(());
        }
        if matches!(kind, b'Q' | b'S') {
            let mut process = match turn.take() {
                Some(process) => process,
                None => shared.lock().await,
            };
            let Some((backend, _)) = &mut *process else { return Ok(()) };
            backend.write_all(&asked).await?;
            asked.clear();
            let mut answer = Vec::new();
            let status = read_until_ready(backend, &mut answer).await?;
            client.write_all(&answer).await?;
            turn = (status != b'I').then_some(process);
        }
    }
}

/// The startup message without its length; a request for TLS is refused before.
async fn read_startup(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    loop {
        let length = client.read_u32().await? as usize;
        let mut message = vec![0; length.saturating_sub(4)];
        client.read_exact(&mut message).await?;
        if message != SSL_REQUEST {
            return Ok(message);
        }
        client.write_all(b"N").await?;
    }
}

/// An `ErrorResponse`.
fn refusal_of_options() -> Vec<u8> {
    let fields = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
    let length = u32::try_from(fields.len() + 4).expect("a short message");
    [&b"E"[..], &length.to_be_bytes(), fields].concat()
}

/// Names and values, each ended by a zero, and a zero at the end.
fn without_options(startup: &[u8]) -> Vec<u8> {
    let (version, parameters) = startup.split_at(4);
    let texts: Vec<&[u8]> = parameters.split(|byte| *byte == 0).collect();
    let mut kept = version.to_vec();
    for pair in texts.chunks_exact(2).filter(|pair| !pair[0].is_empty() && pair[0] != b"options") {
        for text in pair {
            kept.extend_from_slice(text);
            kept.push(0);
        }
    }
    kept.push(0);
    kept
}

/// Appends one message; answers its type.
async fn read_message(from: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<u8> {
    let (kind, length) = (from.read_u8().await?, from.read_u32().await?);
    let mut body = vec![0; (length as usize).saturating_sub(4)];
    from.read_exact(&mut body).await?;
    into.push(kind);
    into.extend_from_slice(&length.to_be_bytes());
    into.extend_from_slice(&body);
    Ok(kind)
}

/// Appends messages up to `ReadyForQuery`; answers the transaction's status in it.
async fn read_until_ready(from: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<u8> {
    while read_message(from, into).await? != b'Z' {}
    Ok(into.last().copied().unwrap_or_default())
}
