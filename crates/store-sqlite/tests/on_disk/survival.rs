//! Accepted events are in the file, however the process ends.

use std::os::unix::fs::PermissionsExt;

use millstream_model::status::ExecutionPhase;
use millstream_store::StoreError;
use millstream_store::event_log::{AppendRequest, EventLog};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_store::schema::{Release, SchemaFit};
use millstream_store::views::{EventFilter, EventViews, ExecutionViews};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};

use crate::store_fixture::{self, NOW, SqliteDesk, append, event, execution, start};

async fn accept_numbers(store: &SqliteStore) -> Vec<i64> {
    let tenant = execution("o-1").tenant;
    let views = store.list_events(&tenant, &EventFilter::default(), None, 10_000).await.unwrap();
    views.iter().map(|view| view.accept_no.0).collect()
}

#[tokio::test]
async fn closed_store_reopens_with_its_rows() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(
        &desk.store,
        &[start(&key, "{}", ExecutionPhase::Active), AppendRequest::Event(event(&key, "{}"))],
    )
    .await;
    store_fixture::apply(&desk.store, &key, "{}").await;

    let desk = desk.reopened().await;
    assert_eq!(desk.store.schema().await.unwrap().pending, Vec::<String>::new());
    assert_eq!(accept_numbers(&desk.store).await, [1, 2]);
    assert_eq!(
        desk.store.read_history(&key, millstream_model::id::Seq(0), 10).await.unwrap().entries.len(),
        2
    );
    assert_eq!(desk.store.list_actions(&key, None, 100).await.unwrap().len(), 1);
    assert_eq!(append(&desk.store, &[AppendRequest::Event(event(&key, "{}"))]).await, [3]);
}

/// The file and its WAL copied while the store is open: the state after a kill.
#[tokio::test]
async fn killed_process_keeps_accepted_events() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active)]).await;
    for _ in 0..50 {
        append(&desk.store, &[AppendRequest::Event(event(&key, r#"{"a":1}"#))]).await;
    }

    let wal = desk.directory.path().join("millstream.db-wal");
    assert!(std::fs::metadata(&wal).unwrap().len() > 0, "the case is void without a WAL to recover");
    let after = tempfile::tempdir().unwrap();
    for file in ["millstream.db", "millstream.db-wal"] {
        std::fs::copy(desk.directory.path().join(file), after.path().join(file)).unwrap();
    }

    let store = store_fixture::open(&after.path().join("millstream.db")).await;
    assert_eq!(accept_numbers(&store).await, (1..=51).collect::<Vec<_>>());
}

#[tokio::test]
async fn acceptance_number_is_never_reused() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    assert_eq!(append(&desk.store, &[start(&key, "{}", ExecutionPhase::Completed)]).await, [1]);
    let later = NOW.plus(std::time::Duration::from_secs(1));
    assert_eq!(desk.store.purge_executions(RetentionCutoffs::uniform(later), 10).await.unwrap(), 1);

    let desk = desk.reopened().await;
    assert_eq!(append(&desk.store, &[start(&key, "{}", ExecutionPhase::Completed)]).await, [2]);
}

#[tokio::test]
async fn backup_is_complete_and_never_overwrites() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active)]).await;
    let copy = desk.directory.path().join("copy.db");
    desk.store.backup(&copy).await.unwrap();
    append(&desk.store, &[AppendRequest::Event(event(&key, "{}"))]).await;

    assert!(desk.store.backup(&copy).await.is_err());
    let store = store_fixture::open(&copy).await;
    assert_eq!(accept_numbers(&store).await, [1]);
}

#[tokio::test]
async fn empty_file_reports_pending_migrations() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_fixture::open(&directory.path().join("new/place/millstream.db")).await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    let all = [
        "0001 spine",
        "0002 work",
        "0003 graphs",
        "0004 accepted",
        "0005 outbox",
        "0006 devices",
        "0007 people",
        "0008 notices",
        "0009 standings",
        "0010 keys",
        "0011 releases",
        "0012 quotas",
        "0013 open_runs",
        "0014 execution_lists",
    ];
    assert_eq!(store.schema().await.unwrap().pending, all);
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();
    assert_eq!(store.schema().await.unwrap().pending, Vec::<String>::new());
    store.ping().await.unwrap();
}

#[tokio::test]
async fn foreign_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "these are not the pages of a database\n".repeat(200)).unwrap();
    let opened = SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).await;
    assert!(matches!(opened, Err(StoreError::Corrupt(_))), "{opened:?}");
}

#[tokio::test]
async fn new_files_and_backups_are_private() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("new");
    let store = store_fixture::open(&place.join("millstream.db")).await;
    store.migrate().await.unwrap();
    store.backup(&place.join("copy.db")).await.unwrap();
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.clone()), 0o700);
    for file in ["millstream.db", "millstream.db-wal", "millstream.db-shm", "copy.db"] {
        assert_eq!(mode(place.join(file)), 0o600, "{file}");
    }
}

/// A ping that only reads would report a full disk as ready.
#[tokio::test]
async fn ping_writes_a_commit() {
    let desk = SqliteDesk::fresh().await;
    let now = desk.store.ping().await.unwrap();
    let pinged = "SELECT value FROM settings WHERE key = 'pinged_at'";
    let written: String = desk.shell().query_row(pinged, (), |row| row.get(0)).unwrap();
    assert_eq!(written, now.as_millis().to_string());
}

#[tokio::test]
async fn empty_append_writes_nothing() {
    let desk = SqliteDesk::fresh().await;
    assert_eq!(desk.store.append(&[], NOW).await.unwrap(), []);
}

/// A release that comes after this one has added a table, and its migration is recorded.
#[tokio::test]
async fn tables_of_newer_sqlite_release_serve_this() {
    let desk = SqliteDesk::fresh().await;
    desk.shell()
        .execute_batch(
            "CREATE TABLE of_a_newer_release (n INTEGER);
             ALTER TABLE executions ADD COLUMN of_a_newer_release TEXT;
             INSERT INTO migrations VALUES (99, 'newer', 'SELECT 1')",
        )
        .unwrap();
    let desk = desk.reopened().await;
    assert_eq!(
        desk.store.schema().await.unwrap().judge_release(Release::OURS),
        SchemaFit::Newer { unknown: vec![99] }
    );
    desk.store.migrate().await.unwrap();
    let key = execution("o-1");
    append(
        &desk.store,
        &[start(&key, "{}", ExecutionPhase::Active), AppendRequest::Event(event(&key, "{}"))],
    )
    .await;
    store_fixture::apply(&desk.store, &key, "{}").await;
    assert_eq!(
        desk.store.read_history(&key, millstream_model::id::Seq(0), 10).await.unwrap().entries.len(),
        2
    );
}

#[tokio::test]
async fn finished_sqlite_upgrade_refuses_older_releases() {
    let desk = SqliteDesk::fresh().await;
    let newer = Release { minor: Release::OURS.minor + 1, ..Release::OURS };
    assert_eq!(desk.store.schema().await.unwrap().judge_release(Release::OURS), SchemaFit::Exact);
    assert_eq!(desk.store.finish_upgrade(newer).await.unwrap(), newer);
    assert_eq!(desk.store.finish_upgrade(Release::OURS).await.unwrap(), newer);
    let found = desk.store.schema().await.unwrap();
    assert_eq!(found.judge_release(Release::OURS), SchemaFit::Finished { oldest: newer });
    assert_eq!(found.judge_release(newer), SchemaFit::Exact);
}
