//! Network faults between two processes.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use millstream_testkit::eventually;
use millstream_testkit::proxy::{Proxy, Weather};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Long enough that what has not come by then does not come by itself.
const PATIENCE: Duration = Duration::from_millis(300);

/// A server that sends back what it gets, and a proxy in front of it.
async fn echo() -> Proxy {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut input, mut output) = stream.split();
                let _ = tokio::io::copy(&mut input, &mut output).await;
            });
        }
    });
    Proxy::to(address).await
}

async fn exchange(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).await?;
    Ok(String::from_utf8(back).unwrap())
}

#[tokio::test]
async fn in_clear_weather_everything_arrives_both_ways() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let long = "stream ".repeat(100_000);
    let (mut input, mut output) = stream.split();
    let mut back = vec![0; long.len()];
    let (sent, received) = tokio::join!(output.write_all(long.as_bytes()), input.read_exact(&mut back));
    assert_eq!((sent.unwrap(), received.unwrap()), ((), long.len()));
    assert_eq!(back, long.as_bytes());
    assert_eq!(proxy.done().passed, 2 * long.len() as u64);
}

#[tokio::test]
async fn a_slow_network_delays_each_way() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Weather::Slow(Duration::from_millis(40)));
    let began = Instant::now();
    assert_eq!(exchange(&mut stream, "hello").await.unwrap(), "hello");
    assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
    assert_eq!(proxy.done().delayed, 2);
}

#[tokio::test]
async fn what_is_stalled_arrives_later_and_in_order() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut stream, "before").await.unwrap(), "before");
    proxy.set(Weather::Stalled);
    stream.write_all(b"one ").await.unwrap();
    stream.write_all(b"two").await.unwrap();
    let mut back = [0; 7];
    let early = tokio::time::timeout(PATIENCE, stream.read_exact(&mut back)).await;
    assert!(early.is_err(), "it arrived at once");
    proxy.set(Weather::Clear);
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"one two");
}

#[tokio::test]
async fn a_deaf_network_swallows_and_ends_in_a_reset() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut stream, "before").await.unwrap(), "before");
    proxy.set(Weather::Deaf);
    stream.write_all(b"lost").await.unwrap();
    eventually(Duration::from_secs(5), || async {
        if proxy.done().swallowed == 4 { Ok(()) } else { Err(proxy.done()) }
    })
    .await;
    proxy.set(Weather::Clear);
    let end = stream.read_u8().await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut fresh, "after").await.unwrap(), "after");
}

#[tokio::test]
async fn a_connection_that_lost_nothing_survives_a_deaf_moment() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut stream, "before").await.unwrap(), "before");
    proxy.set(Weather::Deaf);
    proxy.set(Weather::Clear);
    assert_eq!(exchange(&mut stream, "after").await.unwrap(), "after");
}

#[tokio::test]
async fn a_cut_resets_everybody_old_and_new() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut stream, "before").await.unwrap(), "before");
    proxy.set(Weather::Cut);
    assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    if let Ok(mut late) = TcpStream::connect(proxy.address()).await {
        assert!(exchange(&mut late, "still connected?").await.is_err());
    }
    eventually(Duration::from_secs(5), || async {
        if proxy.done().reset == 2 { Ok(()) } else { Err(proxy.done()) }
    })
    .await;
    proxy.set(Weather::Clear);
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut fresh, "after").await.unwrap(), "after");
}
