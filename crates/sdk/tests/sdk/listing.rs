//! Lists are streams over pages.

use futures::TryStreamExt;
use millstream_sdk::client::{EventStatus, ExecutionStatus, NewEvent, NewExecution};

use crate::world::{APPROVAL, SOON, SdkWorld};

#[tokio::test]
async fn list_reads_each_item_once() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(APPROVAL).await.unwrap();
    let ids: Vec<String> = (0..23).map(|n| format!("p-{n:02}")).collect();
    client.start_many(ids.iter().map(|id| NewExecution::of("counter").id(id))).await.unwrap();
    client.start("approval").id("other").await.unwrap();

    let mut stream = client.executions().definition("counter").page_size(5).stream();
    let mut seen = Vec::new();
    while let Some(execution) = stream.next().await {
        seen.push(execution.unwrap().execution_id);
    }
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(seen, newest_first);

    client.send("p-03", "stop").wait(SOON).await.unwrap();
    let stopped: Vec<_> = client
        .executions()
        .state("stopped")
        .status(ExecutionStatus::Completed)
        .stream()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(stopped.len(), 1);
    assert_eq!(stopped[0].execution_id, "p-03");
}

#[tokio::test]
async fn events_and_history_are_lists() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.start("counter").id("h").await.unwrap();
    client.send_many((0..12).map(|_| NewEvent::to("h", "add"))).await.unwrap();
    client.send("h", "stop").wait(SOON).await.unwrap();
    let seqs: Vec<i64> = client
        .history("h")
        .page_size(4)
        .await
        .unwrap()
        .into_iter()
        .map(|transition| transition.seq)
        .collect();
    assert_eq!(seqs, (1..=14).collect::<Vec<_>>());
    let events = client.events().execution("h").status(EventStatus::Completed).page_size(5).await.unwrap();
    assert_eq!(events.len(), 14);
}

#[tokio::test]
async fn refused_list_ends_with_error() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let mut history = client.history("missing").stream();
    assert!(history.next().await.unwrap().unwrap_err().is_not_found());
    assert!(history.next().await.is_none());
}
