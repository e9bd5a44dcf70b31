//! Request bodies that hold memory and never end: most of a batch at once, then a byte now and then.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::AttackScene;

const WITH_KEY: usize = 40;
const WITHOUT_KEY: usize = 40;
const ANNOUNCED: usize = 6 * 1024 * 1024;
const AT_ONCE: usize = 4 * 1024 * 1024;

pub(super) async fn send_slow_bodies(scene: &AttackScene) {
    let mut connections = JoinSet::new();
    for number in 0..WITH_KEY + WITHOUT_KEY {
        let scene = scene.clone();
        connections.spawn(async move {
            let key = (number < WITH_KEY).then(|| scene.fleet.keys.hostile.clone());
            while !scene.is_over() {
                scene.add("bodies", 1);
                let word = match drip(&scene, key.as_deref()).await {
                    Ok(answer) => format!("answered {answer}"),
                    Err(_) => "cut off".to_owned(),
                };
                scene.add(word, 1);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    scene.sleep_until_over().await;
    connections.shutdown().await;
}

/// Sends until the server answers or closes. Answers the status.
async fn drip(scene: &AttackScene, key: Option<&str>) -> io::Result<String> {
    let stream = TcpStream::connect(scene.fleet.address()).await?;
    let (mut read, mut write) = stream.into_split();
    let authorization = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: {}\r\n{authorization}content-type: application/x-ndjson\r\n\
         content-length: {ANNOUNCED}\r\n\r\n",
        scene.fleet.address()
    );
    let sending = async {
        write.write_all(head.as_bytes()).await?;
        let line =
            format!("{{\"execution_id\":\"a\",\"name\":\"tick\",\"payload\":\"{}\"}}\n", "z".repeat(8_000));
        for _ in 0..AT_ONCE / line.len() {
            write.write_all(line.as_bytes()).await?;
        }
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            write.write_all(b" ").await?;
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
