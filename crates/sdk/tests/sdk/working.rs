//! A user's own worker: started, stopped, and refused with invalid settings.

use millstream_sdk::{ActionContext, ActionError, CancellationToken, Worker};

use crate::world::SOON;

async fn nothing(_: ActionContext, (): ()) -> Result<(), ActionError> {
    Ok(())
}

fn embedded(directory: &std::path::Path) -> millstream_sdk::WorkerBuilder {
    Worker::builder()
        .directory(directory)
        .listen("127.0.0.1:0".parse().unwrap())
        .configure(|config| config.log = "error".to_owned())
}

#[tokio::test]
async fn invalid_action_names_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = embedded(directory.path()).action("Charge!", nothing).start().await.unwrap_err();
    assert!(error.to_string().contains("Charge!"), "{error}");
    let twice = embedded(directory.path()).action("charge", nothing).action("charge", nothing);
    let error = twice.start().await.unwrap_err();
    assert!(error.to_string().contains("two actions \"charge\""), "{error}");
}

#[tokio::test]
async fn directory_belongs_to_one_engine() {
    let directory = tempfile::tempdir().unwrap();
    let engine = embedded(directory.path()).action("nothing", nothing).start().await.unwrap();
    let client = engine.client().unwrap();
    client.apply_yaml(crate::world::COUNTER).await.unwrap();
    client.start("counter").id("kept").await.unwrap();
    let second = embedded(directory.path()).start().await.unwrap_err();
    assert!(second.to_string().contains("in use"), "{second}");
    engine.stop().await.unwrap();

    let engine = embedded(directory.path()).start().await.unwrap();
    assert_eq!(engine.client().unwrap().execution("kept").await.unwrap().seq, 1);
    engine.stop().await.unwrap();
}

#[tokio::test]
async fn worker_runs_until_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(embedded(directory.path()).run_until(shutdown.clone()));
    shutdown.cancel();
    tokio::time::timeout(SOON, running).await.expect("it stops").unwrap().unwrap();
}

#[tokio::test]
async fn fleet_without_redis_is_refused() {
    let worker = Worker::builder()
        .configure(|config| {
            config.database_url = "postgres://user@127.0.0.1:1/none".to_owned();
            config.redis_url = String::new();
        })
        .start();
    let error = worker.await.unwrap_err();
    assert!(error.to_string().contains("MILLSTREAM_REDIS_URL"), "{error}");
}
