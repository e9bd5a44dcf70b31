//! The private services really are private, empty, restartable and gone afterwards.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use millstream_testkit::client::try_send;
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{TestClient, TestSink, postgres, redis};
use reqwest::Method;
use sqlx::{Connection, PgConnection, Row};

async fn table_count(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    sqlx::query(sql).fetch_one(&mut connection).await.unwrap().get(0)
}

async fn create_table(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query("CREATE TABLE seen (id int)").execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn private_databases_are_empty_and_separate() {
    let (one, two) = (postgres::private_database().await, postgres::private_database().await);
    create_table(&one.url).await;
    assert_eq!((table_count(&one.url).await, table_count(&two.url).await), (1, 0));
    let url = one.url.clone();
    drop(one);
    assert!(PgConnection::connect(&url).await.is_err(), "a dropped database is gone");
}

#[tokio::test]
async fn cluster_keeps_commits_over_immediate_stop() {
    let mut cluster = postgres::private_cluster().await;
    let url = cluster.create_database("kept").await;
    create_table(&url).await;
    cluster.stop_immediate();
    assert!(PgConnection::connect(&url).await.is_err(), "a stopped cluster accepts no connection");
    cluster.start().await;
    assert_eq!(table_count(&url).await, 1);
}

#[tokio::test]
async fn restarted_redis_is_empty_same_port() {
    let mut server = redis::private_redis().await;
    let client = ::redis::Client::open(server.url.as_str()).unwrap();
    let put = async || {
        let mut connection = redis::connect_patiently(&client).await.unwrap();
        let () = ::redis::cmd("SET").arg("a").arg(1).query_async(&mut connection).await.unwrap();
    };
    let size = async || -> u32 {
        let mut connection = redis::connect_patiently(&client).await.unwrap();
        ::redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
    };
    put().await;
    server.flush_all().await;
    assert_eq!(size().await, 0);
    put().await;
    server.kill();
    assert!(
        client.get_multiplexed_async_connection().await.is_err(),
        "a killed server accepts no connection"
    );
    server.start_empty().await;
    assert_eq!(size().await, 0);
    put().await;
    server.stop().await;
    server.start_empty().await;
    assert_eq!(size().await, 0);
}

#[tokio::test]
async fn sink_follows_script_and_records_calls() {
    let sink = TestSink::start().await;
    let client = TestClient::new(&sink.url(""));
    sink.set_answers(
        "/pay",
        [
            SinkAnswer::Status(500),
            SinkAnswer::Header(429, "retry-after", "1".into()),
            SinkAnswer::Status(201),
        ],
    );
    let body = serde_json::json!({ "n": 1 });
    let first = client.post("/pay", &body).await;
    let second = client.post("/pay", &body).await;
    assert_eq!((first.status, second.status, second.header("retry-after")), (500, 429, Some("1")));
    for _ in 0..2 {
        assert_eq!(client.post("/pay", &body).await.status, 201, "the last answer repeats");
    }
    assert_eq!(client.get("/elsewhere").await.status, 200);
    assert_eq!(sink.calls_to("/pay").len(), 4);
    assert_eq!(sink.calls_to("/pay")[0].json(), body);
}

#[tokio::test]
async fn held_call_waits_for_release() {
    let sink = TestSink::start().await;
    sink.set_answers("/slow", [SinkAnswer::Hold(204)]);
    let client = TestClient::new(&sink.url(""));
    let call = tokio::spawn(try_send(client.request(Method::GET, "/slow")));
    millstream_testkit::eventually(millstream_testkit::eventually::PATIENCE, || {
        std::future::ready(if sink.recorded_calls().len() == 1 { Ok(()) } else { Err("no call yet") })
    })
    .await;
    assert!(!call.is_finished());
    sink.release_held();
    assert_eq!(call.await.unwrap().unwrap().status, 204);
}
