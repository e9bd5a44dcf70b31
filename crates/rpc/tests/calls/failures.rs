//! Failed calls: no peer, or one that is no executor.

use std::time::Duration;

use millstream_rpc::client::{CallFailure, ExecutorClientOptions, ExecutorClients, Http2Ping};
use millstream_workflow::graph::NodeStatus;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tonic::Code;

use crate::executor::{call, in_time, listen, raw, request, reserved, serve, trusted};

#[tokio::test]
async fn missing_executor_is_unreachable() {
    let (_socket, address) = reserved();
    let failure = call(&format!("http://{address}")).await.unwrap_err();
    assert!(matches!(&failure, CallFailure::Unreachable(why) if why.contains("refused")), "{failure}");
    assert_eq!(failure.node_status(), NodeStatus::InfraError);
}

#[tokio::test]
async fn invalid_executor_address_is_unreachable() {
    for address in ["", "nonsense", "http://", "http://127.0.0.1:0", "ftp://127.0.0.1:1"] {
        let failure = call(address).await.unwrap_err();
        assert!(matches!(failure, CallFailure::Unreachable(_)), "{address}: {failure}");
    }
}

#[tokio::test]
async fn closed_connection_is_no_answer() {
    let door = raw(|stream| async move { drop(stream) }).await;
    for _ in 0..20 {
        // Whether the request was sent before is a race; neither result blames the task.
        let failure = call(&door.url()).await.unwrap_err();
        assert!(matches!(failure, CallFailure::Unreachable(_) | CallFailure::Crashed(_)), "{failure}");
    }
}

#[tokio::test]
async fn broken_connection_is_a_crash() {
    for reset in [false, true] {
        let (began, mut begun) = tokio::sync::mpsc::channel(1);
        let executor = serve(move |_| {
            let began = began.clone();
            async move {
                began.send(()).await.unwrap();
                std::future::pending().await
            }
        })
        .await;
        let (cut, upstream) = (std::sync::Arc::new(Notify::new()), executor.address);
        let when = cut.clone();
        let between = raw(move |mut stream| {
            let when = when.clone();
            async move {
                let mut onward = TcpStream::connect(upstream).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut stream, &mut onward) => {}
                    () = when.notified() => {}
                }
                if reset {
                    stream.set_zero_linger().unwrap();
                }
            }
        })
        .await;
        let url = between.url();
        let calling = tokio::spawn(async move { call(&url).await });
        begun.recv().await.unwrap();
        cut.notify_one();
        let failure = calling.await.unwrap().unwrap_err();
        assert!(matches!(failure, CallFailure::Crashed(_)), "{failure}");
        assert_eq!(failure.node_status(), NodeStatus::Crash);
    }
}

#[tokio::test]
async fn panicking_executor_is_a_crash() {
    let executor = serve(|_| async { panic!("the executor's own bug") }).await;
    let failure = call(&executor.url()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Crashed(_)), "{failure}");
}

#[tokio::test]
async fn peer_with_other_protocol_is_garbage() {
    let door = raw(|mut stream| async move {
        let mut heard = [0; 4096];
        let _ = stream.read(&mut heard).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    })
    .await;
    let failure = call(&door.url()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Garbage(_)), "{failure}");
    assert_eq!(failure.node_status(), NodeStatus::InfraError);
}

#[tokio::test]
async fn server_without_node_service_refuses() {
    let listener = listen().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let routes = tonic::service::Routes::default();
        let stopped = async { drop(stopped.await) };
        tonic::transport::Server::builder()
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, stopped)
            .await
    });
    let failure = call(&url).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Refused { code: Code::Unimplemented, .. }), "{failure}");
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn pings_detect_hanging_peer() {
    let mute = raw(|mut stream| async move {
        let mut heard = [0; 4096];
        while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    })
    .await;
    let ping = Http2Ping { every: Duration::from_millis(50), timeout: Duration::from_millis(50) };
    let executors =
        ExecutorClients::new(ExecutorClientOptions { ping: Some(ping), ..ExecutorClientOptions::default() });
    let failure = executors.execute_node(&trusted(&mute.url()), request(), in_time()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Crashed(_)), "{failure}");
}
