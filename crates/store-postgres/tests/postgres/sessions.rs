//! Sessions of the store, and servers that it must refuse.

use millstream_store::StoreError;
use millstream_store::housekeeping::Housekeeping;
use millstream_store_postgres::{PostgresOptions, PostgresStore, ServerCheck};
use millstream_testkit::pooler::{Pooler, StartupOptions};
use millstream_testkit::postgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::Fixture;

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
async fn the_store_commits_synchronously_whatever_the_database_says() {
    for (setting, seen) in [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")] {
        let fixture = Fixture::fresh().await;
        alter(&fixture.database.url, &format!("synchronous_commit = {setting}")).await;
        assert_eq!(synchronous_commit_at_ping(&fixture.database.url).await, seen, "{setting}");
    }
}

#[tokio::test]
async fn a_direct_server_is_usable_and_its_unsafe_settings_are_named() {
    let database = postgres::database().await;
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
async fn a_pooler_that_gives_one_process_to_two_sessions_is_refused_at_the_start() {
    let fixture = Fixture::fresh().await;
    let options = StartupOptions::ForwardedToOneProcess;
    let (_pooler, url) = Pooler::in_front_of(&fixture.database.url, options).await;
    let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
    let ServerCheck::Refused(why) = store.check_server().await.unwrap() else { panic!("it is used") };
    assert!(why.contains("transaction mode"), "{why}");
}

#[tokio::test]
async fn a_pooler_that_swaps_sessions_or_drops_settings_is_refused_at_the_start_and_by_every_connection() {
    let fixture = Fixture::fresh().await;
    for (options, word) in [
        (StartupOptions::Forwarded, "transaction mode"),
        (StartupOptions::Dropped, "transaction mode"),
        (StartupOptions::DroppedInSessionMode, "a pooler in between drops them"),
        (StartupOptions::Refused, "a pooler in between drops them"),
    ] {
        let (_pooler, url) = Pooler::in_front_of(&fixture.database.url, options).await;
        let settings =
            PostgresOptions { acquire_timeout: std::time::Duration::from_millis(300), ..Default::default() };
        let store = PostgresStore::connect(&url, settings).await.unwrap();
        let ServerCheck::Refused(why) = store.check_server().await.unwrap() else { panic!("{options:?}") };
        assert!(why.contains(word), "{options:?}: {why}");
        assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))), "{options:?}");
    }
}

#[tokio::test]
async fn a_ping_fails_while_the_database_is_read_only() {
    let fixture = Fixture::fresh().await;
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
