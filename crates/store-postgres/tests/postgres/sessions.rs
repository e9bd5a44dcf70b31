//! Sessions of the store, and servers that it must refuse.

use millstream_store::StoreError;
use millstream_store::housekeeping::Housekeeping;
use millstream_store_postgres::{PostgresOptions, PostgresStore, ServerCheck};
use millstream_testkit::pooler::{StartupOptions, TestPooler};
use millstream_testkit::postgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::PostgresFixture;

/// Changes a default of the database, for sessions that begin later.
async fn alter(url: &str, setting: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let name = url.rsplit('/').next().unwrap();
    let statement = format!("ALTER DATABASE {name} SET {setting}");
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
}

/// The value in the store's own sessions. A query on `pg_stat_activity` would show the database's default
/// only.
async fn synchronous_commit_at_ping(url: &str) -> String {
    const WATCH: &str = "
CREATE TABLE seen (setting TEXT);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
CREATE TRIGGER look BEFORE INSERT OR UPDATE ON settings FOR EACH ROW EXECUTE FUNCTION look();";
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(WATCH).execute(&mut connection).await.unwrap();
    let store = PostgresStore::connect(url, PostgresOptions::default()).await.unwrap();
    store.ping().await.unwrap();
    sqlx::query_scalar("SELECT setting FROM seen LIMIT 1").fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn store_forces_synchronous_commit() {
    for (setting, seen) in [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")] {
        let fixture = PostgresFixture::fresh().await;
        alter(&fixture.database.url, &format!("synchronous_commit = {setting}")).await;
        assert_eq!(synchronous_commit_at_ping(&fixture.database.url).await, seen, "{setting}");
    }
}

#[tokio::test]
async fn direct_server_is_usable_with_warnings() {
    let database = postgres::private_database().await;
    let store = PostgresStore::connect(&database.url, PostgresOptions::default()).await.unwrap();
    let ServerCheck::Usable { warnings } = store.check_server().await.unwrap() else { panic!("refused") };
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let off: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(warnings.len(), off.len(), "{warnings:?}");
    for (warning, name) in warnings.iter().zip(&off) {
        assert!(warning.contains(&format!("{name}=off")), "{warning}");
    }
}

#[tokio::test]
async fn shared_session_pooler_is_refused_at_start() {
    let fixture = PostgresFixture::fresh().await;
    let options = StartupOptions::ForwardedToOneProcess;
    let (_pooler, url) = TestPooler::in_front_of(&fixture.database.url, options).await;
    let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
    let ServerCheck::Refused(why) = store.check_server().await.unwrap() else { panic!("it is used") };
    assert!(why.contains("transaction mode"), "{why}");
}

#[tokio::test]
async fn swapping_pooler_is_refused_by_every_connection() {
    let fixture = PostgresFixture::fresh().await;
    for (options, word) in [
        (StartupOptions::Forwarded, "transaction mode"),
        (StartupOptions::Dropped, "transaction mode"),
        (StartupOptions::DroppedInSessionMode, "a pooler in between drops them"),
        (StartupOptions::Refused, "a pooler in between drops them"),
    ] {
        let (_pooler, url) = TestPooler::in_front_of(&fixture.database.url, options).await;
        let settings =
            PostgresOptions { acquire_timeout: std::time::Duration::from_millis(300), ..Default::default() };
        let store = PostgresStore::connect(&url, settings).await.unwrap();
        let ServerCheck::Refused(why) = store.check_server().await.unwrap() else { panic!("{options:?}") };
        assert!(why.contains(word), "{options:?}: {why}");
        assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))), "{options:?}");
    }
}

#[tokio::test]
async fn ping_fails_on_read_only_database() {
    let fixture = PostgresFixture::fresh().await;
    let open =
        async || PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    alter(&fixture.database.url, "default_transaction_read_only = on").await;
    assert!(matches!(open().await.ping().await, Err(StoreError::Unavailable(_))));
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    let name = fixture.database.url.rsplit('/').next().unwrap();
    let reset = format!("ALTER DATABASE {name} RESET default_transaction_read_only");
    for statement in ["SET default_transaction_read_only = off".to_owned(), reset] {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }
    open().await.ping().await.unwrap();
}
