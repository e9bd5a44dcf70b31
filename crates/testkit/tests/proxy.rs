//! Network faults between two processes.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use millstream_testkit::eventually;
use millstream_testkit::proxy::{NetworkWeather, TestProxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Long enough that what has not come by then does not come by itself.
const PATIENCE: Duration = Duration::from_millis(300);

/// A server that sends back what it gets, and a proxy in front of it.
async fn echo_proxy() -> TestProxy {
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
    TestProxy::forward_to(address).await
}

async fn exchange_text(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).await?;
    Ok(String::from_utf8(back).unwrap())
}

#[tokio::test]
async fn clear_proxy_forwards_both_ways() {
    let proxy = echo_proxy().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let long = "stream ".repeat(100_000);
    let (mut input, mut output) = stream.split();
    let mut back = vec![0; long.len()];
    let (sent, received) = tokio::join!(output.write_all(long.as_bytes()), input.read_exact(&mut back));
    assert_eq!((sent.unwrap(), received.unwrap()), ((), long.len()));
    assert_eq!(back, long.as_bytes());
    assert_eq!(proxy.totals_so_far().passed, 2 * long.len() as u64);
}

#[tokio::test]
async fn slow_proxy_delays_each_way() {
    let proxy = echo_proxy().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set_weather(NetworkWeather::Slow(Duration::from_millis(40)));
    let began = Instant::now();
    assert_eq!(exchange_text(&mut stream, "hello").await.unwrap(), "hello");
    assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
    assert_eq!(proxy.totals_so_far().delayed, 2);
}

#[tokio::test]
async fn stalled_proxy_delivers_later_in_order() {
    let proxy = echo_proxy().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange_text(&mut stream, "before").await.unwrap(), "before");
    proxy.set_weather(NetworkWeather::Stalled);
    stream.write_all(b"one ").await.unwrap();
    stream.write_all(b"two").await.unwrap();
    let mut back = [0; 7];
    let early = tokio::time::timeout(PATIENCE, stream.read_exact(&mut back)).await;
    assert!(early.is_err(), "it arrived at once");
    proxy.set_weather(NetworkWeather::Clear);
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"one two");
}

#[tokio::test]
async fn deaf_proxy_ends_in_reset() {
    let proxy = echo_proxy().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange_text(&mut stream, "before").await.unwrap(), "before");
    proxy.set_weather(NetworkWeather::Deaf);
    stream.write_all(b"lost").await.unwrap();
    eventually(Duration::from_secs(5), || async {
        if proxy.totals_so_far().swallowed == 4 { Ok(()) } else { Err(proxy.totals_so_far()) }
    })
    .await;
    proxy.set_weather(NetworkWeather::Clear);
    let end = stream.read_u8().await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange_text(&mut fresh, "after").await.unwrap(), "after");
}

#[tokio::test]
async fn idle_connection_survives_deaf_proxy() {
    let proxy = echo_proxy().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange_text(&mut stream, "before").await.unwrap(), "before");
    proxy.set_weather(NetworkWeather::Deaf);
    proxy.set_weather(NetworkWeather::Clear);
    assert_eq!(exchange_text(&mut stream, "after").await.unwrap(), "after");
}

#[tokio::test]
async fn cut_proxy_resets_all_connections() {
    let proxy = echo_proxy().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange_text(&mut stream, "before").await.unwrap(), "before");
    proxy.set_weather(NetworkWeather::Cut);
    assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    if let Ok(mut late) = TcpStream::connect(proxy.address()).await {
        assert!(exchange_text(&mut late, "still connected?").await.is_err());
    }
    eventually(Duration::from_secs(5), || async {
        if proxy.totals_so_far().reset == 2 { Ok(()) } else { Err(proxy.totals_so_far()) }
    })
    .await;
    proxy.set_weather(NetworkWeather::Clear);
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange_text(&mut fresh, "after").await.unwrap(), "after");
}
