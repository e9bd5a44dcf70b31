//! The private services really are private, empty, restartable and gone afterwards.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

use millstream_testkit::client::try_send;
use millstream_testkit::sink::Answer;
use millstream_testkit::{Client, Sink, postgres, redis};
use reqwest::Method;
use sqlx::{Connection, PgConnection, Row};

async fn tables(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    sqlx::query(sql).fetch_one(&mut connection).await.unwrap().get(0)
}

async fn create_table(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query("CREATE TABLE seen (id int)").execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn every_database_is_empty_and_its_own() {
    let (one, two) = (postgres::database().await, postgres::database().await);
    create_table(&one.url).await;
    assert_eq!((tables(&one.url).await, tables(&two.url).await), (1, 0));
    let url = one.url.clone();
    drop(one);
    assert!(PgConnection::connect(&url).await.is_err(), "a dropped database is gone");
}

#[tokio::test]
async fn a_cluster_keeps_what_was_committed_over_an_immediate_stop() {
    let mut cluster = postgres::cluster().await;
    let url = cluster.create_database("kept").await;
    create_table(&url).await;
    cluster.stop_immediate();
    assert!(PgConnection::connect(&url).await.is_err(), "a stopped cluster accepts no connection");
    cluster.start().await;
    assert_eq!(tables(&url).await, 1);
}

#[tokio::test]
async fn redis_comes_back_empty_on_the_same_address() {
    let mut server = redis::server().await;
    let client = ::redis::Client::open(server.url.as_str()).unwrap();
    let put = async || {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let () = ::redis::cmd("SET").arg("a").arg(1).query_async(&mut connection).await.unwrap();
    };
    let size = async || -> u32 {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
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
async fn a_sink_follows_its_script_and_remembers_its_calls() {
    let sink = Sink::start().await;
    let client = Client::new(&sink.url(""));
    sink.script(
        "/pay",
        [Answer::Status(500), Answer::Header(429, "retry-after", "1".into()), Answer::Status(201)],
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
async fn a_held_call_waits_for_its_release() {
    let sink = Sink::start().await;
    sink.script("/slow", [Answer::Hold(204)]);
    let client = Client::new(&sink.url(""));
    let call = tokio::spawn(try_send(client.request(Method::GET, "/slow")));
    millstream_testkit::eventually(millstream_testkit::eventually::PATIENCE, || {
        std::future::ready(if sink.calls().len() == 1 { Ok(()) } else { Err("no call yet") })
    })
    .await;
    assert!(!call.is_finished());
    sink.release();
    assert_eq!(call.await.unwrap().unwrap().status, 204);
}
