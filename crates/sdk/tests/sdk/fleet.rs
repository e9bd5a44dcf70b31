//! A user's own worker as a member of a fleet, on PostgreSQL and Redis.

use std::sync::Arc;

use millstream_runtime::backend::Database;
use millstream_runtime::config::{Config, ConfigFlags, merge_layers};
use millstream_runtime::ingress;
use millstream_runtime::roles::KeylessAccess;
use millstream_sdk::client::EventStatus;
use millstream_sdk::{ActionContext, ActionError, CancellationToken, Client, Worker};
use millstream_testkit::{postgres, redis};
use serde_json::json;

use crate::world::{COUNTER, SOON};

fn settings(database: &str, redis: &str) -> Config {
    let mut config = merge_layers(None, std::iter::empty(), &ConfigFlags::default()).unwrap();
    config.database_url = database.to_owned();
    config.redis_url = redis.to_owned();
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.log = "error".to_owned();
    config
}

#[tokio::test]
async fn fleet_worker_performs_and_deregisters() {
    let (database, redis) = (postgres::private_database().await, redis::private_redis().await);
    let config = settings(&database.url, &redis.url);
    let opened = Database::open(&config).await.unwrap();
    opened.migrate().await.unwrap();
    opened.close().await;
    let door = ingress::open_ingress(&config, KeylessAccess::Careful).await.unwrap();
    let client = Client::new(format!("http://{}", door.addresses().unwrap()[0])).unwrap();
    let closing = CancellationToken::new();
    let serving = tokio::spawn(door.run(Arc::new(String::new), closing.clone()));

    let worker = Worker::builder()
        .action("nothing", async |_: ActionContext, (): ()| Ok::<_, ActionError>(()))
        .configure(move |own| *own = config)
        .start()
        .await
        .unwrap();
    assert!(worker.address().is_none());
    assert!(worker.client().is_err(), "a worker of a fleet has no listener");

    client.apply_yaml(COUNTER).await.unwrap();
    client.start("counter").id("f-1").await.unwrap();
    let sent = client.send("f-1", "add").payload(json!({ "by": 3 })).wait(SOON).await.unwrap();
    assert_eq!(sent.status, EventStatus::Completed);
    assert_eq!(client.execution("f-1").await.unwrap().context["count"], 3);
    worker.stop().await.unwrap();
    assert!(client.workers().await.unwrap().is_empty(), "it deregistered");
    closing.cancel();
    serving.await.unwrap().unwrap();
}
