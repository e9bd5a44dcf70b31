//! HTTP/2 servers that end calls in every way of the protocol.

use h2::Reason;
use h2::server::{Connection, SendResponse, handshake};
use millstream_rpc::client::{CallFailure, ExecutorClients};
use millstream_rpc::proto::ExecuteNodeResponse;
use prost::bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Response};

use crate::executor::{RunningServer, call, in_time, listen, raw, request, service, trusted};

/// Runs `act` on the first request of every connection, and keeps the connection open.
async fn first_request(act: fn(&mut Connection<TcpStream, Bytes>, SendResponse<Bytes>)) -> RunningServer {
    raw(move |stream| async move {
        let Ok(mut connection) = handshake(stream).await else { return };
        let Some(Ok((_, respond))) = connection.accept().await else { return };
        act(&mut connection, respond);
        while let Some(Ok(_)) = connection.accept().await {}
    })
    .await
}

async fn ended_by(act: fn(&mut Connection<TcpStream, Bytes>, SendResponse<Bytes>)) -> CallFailure {
    call(&first_request(act).await.url()).await.unwrap_err()
}

#[tokio::test]
async fn refused_stream_is_unreachable() {
    let failure = ended_by(|_, mut respond| respond.send_reset(Reason::REFUSED_STREAM)).await;
    assert!(matches!(failure, CallFailure::Unreachable(_)), "{failure}");
}

#[tokio::test]
async fn reset_stream_is_a_crash() {
    for act in [
        (|_, mut respond| respond.send_reset(Reason::INTERNAL_ERROR)) as fn(&mut _, SendResponse<Bytes>),
        |_, mut respond| respond.send_reset(Reason::CANCEL),
        |_, mut respond| respond.send_reset(Reason::NO_ERROR),
        |connection: &mut Connection<TcpStream, Bytes>, _| {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM)
        },
        // The peer had accepted the call.
        |connection: &mut Connection<TcpStream, Bytes>, _| connection.abrupt_shutdown(Reason::NO_ERROR),
    ] {
        let failure = ended_by(act).await;
        assert!(matches!(failure, CallFailure::Crashed(_)), "{failure}");
    }
}

#[tokio::test]
async fn http_status_maps_to_grpc_code() {
    let failure = ended_by(|_, mut respond| {
        let response = Response::builder().status(503).body(()).unwrap();
        respond.send_response(response, true).unwrap();
    })
    .await;
    assert!(matches!(failure, CallFailure::Refused { code: Code::Unavailable, .. }), "{failure}");
}

#[tokio::test]
async fn undecodable_answer_is_refused() {
    for body in [&b"<html>hello</html>"[..], &b"\0\0\0\0\x02\x0a\x7f"[..]] {
        let server = raw(move |stream| async move {
            let Ok(mut connection) = handshake(stream).await else { return };
            let Some(Ok((_, mut respond))) = connection.accept().await else { return };
            let response = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            let mut stream = respond.send_response(response, false).unwrap();
            stream.send_data(Bytes::from_static(body), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            stream.send_trailers(trailers).unwrap();
            while let Some(Ok(_)) = connection.accept().await {}
        })
        .await;
        let failure = call(&server.url()).await.unwrap_err();
        assert!(matches!(failure, CallFailure::Refused { code: Code::Internal, .. }), "{failure}");
    }
}

#[tokio::test]
async fn draining_executor_finishes_its_calls() {
    let (began, mut begun) = mpsc::channel(1);
    let (release, released) = oneshot::channel::<()>();
    let released = std::sync::Arc::new(tokio::sync::Mutex::new(Some(released)));
    let service = service(move |_| {
        let (began, released) = (began.clone(), released.clone());
        async move {
            began.send(()).await.unwrap();
            let released = released.lock().await.take().unwrap();
            released.await.unwrap();
            Ok(ExecuteNodeResponse { status: 3, ..Default::default() })
        }
    });
    let listener = listen().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        let incoming = TcpListenerStream::new(listener);
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, stopped)
            .await
    });
    let executors = ExecutorClients::default();
    let first = tokio::spawn({
        let (executors, url) = (executors.clone(), url.clone());
        async move { executors.execute_node(&trusted(&url), request(), in_time()).await }
    });
    begun.recv().await.unwrap();
    stop.send(()).unwrap();
    // The listener closes asynchronously; wait until connections are refused.
    while tokio::net::TcpStream::connect(url.trim_start_matches("http://")).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let failure = executors.execute_node(&trusted(&url), request(), in_time()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Unreachable(_)), "{failure}");
    release.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap().status, 3);
    server.await.unwrap().unwrap();
}
