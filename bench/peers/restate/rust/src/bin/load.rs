//! The client: one-way calls to Restate's HTTP ingress over HTTP/1.1 connections that are kept open.
//!
//! The same contract as the other peers' clients: commands on standard input (`single N CLIENTS`,
//! `open N RATE`), one line of JSON for each. `load HOST:PORT`.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use peers_restate::clock::now_us;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

struct Load {
    address: String,
    /// Distinguishes the keys of one command from those of the others.
    command: u64,
    errors: Mutex<Vec<String>>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Load {
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let kept = self.idle.lock().expect("no panic").pop();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let stream = TcpStream::connect(&self.address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// One event to an execution of its own, answered when Restate has it in its log.
    async fn submit(&self, i: u64) {
        if let Err(error) = self.attempt(i).await {
            self.errors.lock().expect("no panic").push(error);
        }
    }

    async fn attempt(&self, i: u64) -> Result<(), String> {
        let mut sender = self.connection().await?;
        sender.ready().await.map_err(|error| error.to_string())?;
        let body = format!(r#"{{"i":{i},"sent_us":{},"kind":"paid","amount":1234}}"#, now_us());
        let request = Request::post(format!("/Execution/{}-{i}/apply/send", self.command))
            .header("host", &self.address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let answer = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&answer)));
        }
        self.idle.lock().expect("no panic").push(sender);
        Ok(())
    }
}

async fn closed_loop(load: &Arc<Load>, n: u64, clients: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (load, next) = (load.clone(), next.clone());
        running.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return;
                }
                load.submit(i).await;
            }
        });
    }
    running.join_all().await;
}

async fn open_loop(load: &Arc<Load>, n: u64, rate: u64) {
    let began = Instant::now();
    let mut running = JoinSet::new();
    for i in 0..n {
        tokio::time::sleep_until(began + Duration::from_micros(i * 1_000_000 / rate)).await;
        let load = load.clone();
        running.spawn(async move { load.submit(i).await });
    }
    running.join_all().await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).expect("load HOST:PORT");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut idle = Vec::new();
    println!("{}", serde_json::json!({"ready": true}));
    for command in 0.. {
        let Some(line) = lines.next_line().await.expect("read a command") else { return };
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| -> u64 { words[at].parse().expect("a number") };
        let load = Arc::new(Load {
            address: address.clone(),
            command,
            errors: Mutex::default(),
            idle: Mutex::new(std::mem::take(&mut idle)),
        });
        let first_us = now_us();
        match words[0] {
            "single" => closed_loop(&load, number(1), number(2)).await,
            "open" => open_loop(&load, number(1), number(2)).await,
            unknown => panic!("no command {unknown}"),
        }
        let last_us = now_us();
        let errors = std::mem::take(&mut *load.errors.lock().expect("no panic"));
        let answer = serde_json::json!({"first_us": first_us, "last_us": last_us, "errors": errors.len(), "error": errors.first()});
        println!("{answer}");
        idle = std::mem::take(&mut *load.idle.lock().expect("no panic"));
    }
}
