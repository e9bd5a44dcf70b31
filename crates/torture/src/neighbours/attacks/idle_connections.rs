//! HTTP/2 connections that carry no call and answer every ping, opened again when the server closes them.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::AttackScene;

const CONNECTIONS: usize = 3_000;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
const PING: u8 = 6;
const SETTINGS_TYPE: u8 = 4;
const ACK: u8 = 1;

pub(super) async fn open_idle_connections(scene: &AttackScene) {
    let mut connections = JoinSet::new();
    for number in 0..CONNECTIONS {
        let scene = scene.clone();
        connections.spawn(async move {
            // Connections are opened at different times.
            tokio::time::sleep(Duration::from_millis(number as u64)).await;
            while !scene.is_over() {
                let word = match hold_idle(&scene).await {
                    Ok(()) => "connections closed by the server",
                    Err(_) => "connections refused or broken",
                };
                scene.add_count(word, 1);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }
    scene.sleep_until_over().await;
    connections.shutdown().await;
}

/// One connection until the server closes it.
async fn hold_idle(scene: &AttackScene) -> io::Result<()> {
    let mut stream = TcpStream::connect(scene.fleet.address()).await?;
    stream.write_all(PREFACE).await?;
    stream.write_all(&SETTINGS).await?;
    scene.add_count("connections", 1);
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return Ok(());
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        match (head[3], head[4] & ACK) {
            (SETTINGS_TYPE, 0) => stream.write_all(&SETTINGS_ACK).await?,
            (PING, 0) => {
                scene.add_count("pings answered", 1);
                let mut pong = vec![0, 0, 8, PING, ACK, 0, 0, 0, 0];
                pong.extend_from_slice(&payload);
                stream.write_all(&pong).await?;
            }
            _ => {}
        }
    }
}
