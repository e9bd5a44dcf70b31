//! Calls that time out or are cancelled.

use std::time::Duration;

use millstream_rpc::client::{CallFailure, ExecutorClients};
use millstream_workflow::graph::NodeStatus;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::executor::{RunningServer, call, in_time, raw, request, serve, trusted};

const SOON: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports when a call began, and when it was cancelled.
struct WatchedExecutor {
    executor: RunningServer,
    began: mpsc::Receiver<Option<String>>,
    ended: mpsc::Receiver<()>,
}

async fn never_answering() -> WatchedExecutor {
    struct OnDrop(mpsc::Sender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.try_send(()).unwrap();
        }
    }
    let (begin, began) = mpsc::channel(1);
    let (end, ended) = mpsc::channel(1);
    let executor = serve(move |request| {
        let (begin, end) = (begin.clone(), end.clone());
        async move {
            let _guard = OnDrop(end);
            let timeout = request.metadata().get("grpc-timeout");
            begin.send(timeout.map(|text| text.to_str().unwrap().to_owned())).await.unwrap();
            std::future::pending().await
        }
    })
    .await;
    WatchedExecutor { executor, began, ended }
}

#[tokio::test]
async fn call_deadline_times_out_and_cancels() {
    let mut watched = never_answering().await;
    let url = watched.executor.url();
    let executors = ExecutorClients::default();
    let failure = executors.execute_node(&trusted(&url), request(), Instant::now() + SOON).await.unwrap_err();
    assert_eq!(failure, CallFailure::TimedOut);
    assert_eq!(failure.node_status(), NodeStatus::Timeout);
    timeout(PATIENCE, watched.began.recv()).await.unwrap().unwrap();
    timeout(PATIENCE, watched.ended.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn dropped_call_is_cancelled() {
    let mut watched = never_answering().await;
    let url = watched.executor.url();
    let (stop, stopped) = oneshot::channel::<()>();
    let calling = tokio::spawn(async move {
        let executors = ExecutorClients::default();
        let executor = trusted(&url);
        tokio::select! {
            answer = executors.execute_node(&executor, request(), in_time()) => panic!("{answer:?}"),
            _ = stopped => executors,
        }
    });
    let given = timeout(PATIENCE, watched.began.recv()).await.unwrap().unwrap();
    // The executor gets the remaining time, plus the grace period.
    assert!(given.is_some(), "no grpc-timeout");
    stop.send(()).unwrap();
    // The connection stays open; only the call ends.
    let _executors = calling.await.unwrap();
    timeout(PATIENCE, watched.ended.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn silent_peer_times_out() {
    let mute = raw(|mut stream| async move {
        let mut heard = [0; 4096];
        while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    })
    .await;
    let executors = ExecutorClients::default();
    let failure =
        executors.execute_node(&trusted(&mute.url()), request(), Instant::now() + SOON).await.unwrap_err();
    assert_eq!(failure, CallFailure::TimedOut);
}

#[tokio::test]
async fn past_deadline_sends_no_request() {
    let mut watched = never_answering().await;
    let url = watched.executor.url();
    let failure =
        ExecutorClients::default().execute_node(&trusted(&url), request(), Instant::now()).await.unwrap_err();
    assert_eq!(failure, CallFailure::TimedOut);
    assert!(watched.began.try_recv().is_err());
}

#[tokio::test]
async fn executor_deadline_exceeded_is_timeout() {
    let executor = serve(|_| async { Err(Status::deadline_exceeded("my own clock")) }).await;
    assert_eq!(call(&executor.url()).await.unwrap_err(), CallFailure::TimedOut);
}
