//! Answers of executors.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_rpc::client::{CallFailure, ExecutorClientOptions, ExecutorClients};
use millstream_rpc::proto::ExecuteNodeResponse;
use millstream_workflow::graph::NodeStatus;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tonic::{Code, Status};

use crate::executor::{call, in_time, raw, request, reserved, serve, serve_on, trusted};

#[tokio::test]
async fn executor_answer_is_returned_unchanged() {
    let executor = serve(|request| async move {
        let request = request.into_inner();
        Ok(ExecuteNodeResponse { node_id: request.node_id, status: 3, ..Default::default() })
    })
    .await;
    let answer = call(&executor.url()).await.unwrap();
    assert_eq!((answer.node_id.as_str(), answer.status), ("n", 3));
}

#[tokio::test]
async fn executor_refusal_keeps_its_code() {
    for (code, status) in [
        (Code::ResourceExhausted, NodeStatus::InfraError),
        (Code::Unavailable, NodeStatus::InfraError),
        (Code::Internal, NodeStatus::TaskError),
        (Code::Cancelled, NodeStatus::TaskError),
        (Code::Unknown, NodeStatus::TaskError),
    ] {
        let executor = serve(move |_| async move { Err(Status::new(code, "not today")) }).await;
        let failure = call(&executor.url()).await.unwrap_err();
        assert_eq!(failure, CallFailure::Refused { code, message: "not today".into() });
        assert_eq!(failure.node_status(), status, "{code:?}");
    }
}

#[tokio::test]
async fn executor_answer_over_4_mib_refused() {
    let executor =
        serve(|_| async { Ok(ExecuteNodeResponse { logs: "x".repeat(5 << 20), ..Default::default() }) })
            .await;
    let failure = call(&executor.url()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Refused { code: Code::OutOfRange, .. }), "{failure}");
    assert_eq!(failure.node_status(), NodeStatus::TaskError);
}

#[tokio::test]
async fn executor_calls_share_a_connection() {
    let executor = serve(|_| async { Ok(ExecuteNodeResponse::default()) }).await;
    let upstream = executor.address;
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let between = raw(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut onward = TcpStream::connect(upstream).await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut onward).await;
        }
    })
    .await;
    let executors = ExecutorClients::default();
    for _ in 0..5 {
        executors.execute_node(&trusted(&between.url()), request(), in_time()).await.unwrap();
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    executors.forget_executor(&trusted(&between.url()));
    executors.execute_node(&trusted(&between.url()), request(), in_time()).await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn executors_beyond_pool_size_are_called() {
    let one = serve(|_| async { Ok(ExecuteNodeResponse { status: 3, ..Default::default() }) }).await;
    let two = serve(|_| async { Ok(ExecuteNodeResponse { status: 4, ..Default::default() }) }).await;
    let options =
        ExecutorClientOptions { connections: NonZeroUsize::MIN, ..ExecutorClientOptions::default() };
    let executors = ExecutorClients::new(options);
    for _ in 0..2 {
        for (executor, status) in [(&one, 3), (&two, 4)] {
            let answer =
                executors.execute_node(&trusted(&executor.url()), request(), in_time()).await.unwrap();
            assert_eq!(answer.status, status);
        }
    }
}

#[tokio::test]
async fn restarted_executor_is_reached_again() {
    let (socket, address) = reserved();
    let url = format!("http://{address}");
    let executors = ExecutorClients::default();
    let failure = executors.execute_node(&trusted(&url), request(), in_time()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Unreachable(_)), "{failure}");
    let _executor = serve_on(socket.listen(16).unwrap(), |_| async { Ok(ExecuteNodeResponse::default()) });
    executors.execute_node(&trusted(&url), request(), in_time()).await.unwrap();
}
