//! Calls that time out or are cancelled.

use std::time::Duration;

use millstream_core::graph::NodeStatus;
use millstream_rpc::client::{CallFailure, Executors};
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::executor::{Running, call, in_time, raw, request, serve, trusted};

const SOON: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports when a call began, and when it was cancelled.
struct Watched {
    executor: Running,
    began: mpsc::Receiver<Option<String>>,
    ended: mpsc::Receiver<()>,
}

async fn never_answering() -> Watched {
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
    Watched { executor, began, ended }
}

#[tokio::test]
async fn no_answer_by_the_deadline_is_a_timeout_and_calls_the_work_off() {
    let mut watched = never_answering().await;
    let url = watched.executor.url();
    let executors = Executors::default();
    let failure = executors.execute(&trusted(&url), request(), Instant::now() + SOON).await.unwrap_err();
    assert_eq!(failure, CallFailure::TimedOut);
    assert_eq!(failure.status(), NodeStatus::Timeout);
    timeout(PATIENCE, watched.began.recv()).await.unwrap().unwrap();
    timeout(PATIENCE, watched.ended.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_is_called_off() {
    let mut watched = never_answering().await;
    let url = watched.executor.url();
    let (stop, stopped) = oneshot::channel::<()>();
    let calling = tokio::spawn(async move {
        let executors = Executors::default();
        let executor = trusted(&url);
        tokio::select! {
            answer = executors.execute(&executor, request(), in_time()) => panic!("{answer:?}"),
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
async fn a_peer_that_takes_the_connection_and_says_nothing_is_a_timeout() {
    let mute = raw(|mut stream| async move {
        let mut heard = [0; 4096];
        while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    })
    .await;
    let executors = Executors::default();
    let failure =
        executors.execute(&trusted(&mute.url()), request(), Instant::now() + SOON).await.unwrap_err();
    assert_eq!(failure, CallFailure::TimedOut);
}

#[tokio::test]
async fn a_deadline_that_has_passed_sends_nothing() {
    let mut watched = never_answering().await;
    let url = watched.executor.url();
    let failure = Executors::default().execute(&trusted(&url), request(), Instant::now()).await.unwrap_err();
    assert_eq!(failure, CallFailure::TimedOut);
    assert!(watched.began.try_recv().is_err());
}

#[tokio::test]
async fn an_executor_that_gives_up_by_itself_is_a_timeout() {
    let executor = serve(|_| async { Err(Status::deadline_exceeded("my own clock")) }).await;
    assert_eq!(call(&executor.url()).await.unwrap_err(), CallFailure::TimedOut);
}
