//! A file of the first build is migrated: no row is lost, and running work is finished.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, Seq};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_store::StoreError;
use millstream_store::action_store::{ActionStore, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::execution_store::LoadVerdict;
use millstream_store::incidents::{IncidentFilter, Incidents};
use millstream_store::intervention::Interventions;
use millstream_store::task_board::TaskBoard;
use millstream_store::views::{EventViews, ExecutionViews};
use millstream_store::worker_store::WorkerStore;

use crate::store_fixture::{self, NOW, execution, grant, load, name, raw, worker};

const SPINE: &str = include_str!("../../migrations/0001_spine.sql");

/// An execution in `paid`: `charge` is ready, `receipt` waits for it, `log` is done, and `ship` has been
/// accepted. All at [`NOW`].
const ROWS: &str = r#"
    INSERT INTO executions (tenant, execution_id, definition, version, input_hash, position, seq, state, phase,
                            snapshot, snapshot_seq, created_at, updated_at)
    VALUES ('default', 'o-1', 'order', 1, zeroblob(32), 1, 2, 'paid', 'active',
            '{"format":1,"seq":2,"state":"paid","entered_seq":2,"phase":"active","context":{"n":1.50},"at":"2026-01-01T00:00:00.000Z"}',
            2, 1767225600000, 1767225600000);
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, created_at)
    VALUES ('default', x'00000000000000000000000000000001', 'o-1', 1, 'millstream.start', '{}', 1767225600000),
           ('default', x'00000000000000000000000000000002', 'o-1', 2, 'pay', '{"a":  1.0}', 1767225600000),
           ('default', x'00000000000000000000000000000003', 'o-1', 3, 'ship', '{}', 1767225600000);
    UPDATE accept_no SET last = 3;
    INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
    VALUES ('default', 'o-1', 3, x'00000000000000000000000000000003', 2, 0, 1767225600000);
    INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision, committed_at)
    VALUES ('default', 'o-1', 1, x'00000000000000000000000000000001', 'millstream.start', 1767225600000,
            '{"format":1,"branch":0,"from":null,"to":"received","entered":"entered","set":{},"phase":"active","timers":[],"actions":[]}',
            1767225600000),
           ('default', 'o-1', 2, x'00000000000000000000000000000002', 'pay', 1767225600000,
            '{"format":1,"branch":0,"from":"received","to":"paid","entered":"entered","set":{"n":1.50},"phase":"active","timers":[],"actions":["charge","receipt","log"]}',
            1767225600000);
    INSERT INTO actions (tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, attempts,
                         epoch, due_at, input, result, created_at, settled_at)
    VALUES ('default', 'o-1', 2, 'charge', x'00000000000000000000000000000002', 0, 0, '[]', 'ready', 1, 1,
            1767225600000, '{"x":  1}', NULL, 1767225600000, NULL),
           ('default', 'o-1', 2, 'receipt', x'00000000000000000000000000000002', 1, 0, '["charge"]', 'waiting',
            0, 0, NULL, NULL, NULL, 1767225600000, NULL),
           ('default', 'o-1', 2, 'log', x'00000000000000000000000000000002', 2, 0, '[]', 'succeeded', 0, 0,
            NULL, NULL, '7', 1767225600000, 1767225600000);
    INSERT INTO decisions (id, tenant, execution_id, event_id, kind, actor, reason, at)
    VALUES (5, 'default', 'o-1', x'00000000000000000000000000000002', 'retry', 'ann', 'again', 1767225600000),
           (9, 'default', 'o-1', NULL, 'pause', NULL, 'broken', 1767225600000);
    INSERT INTO workers (worker_id, started_at, seen_at, lanes, in_flight, version)
    VALUES ('host-1-a', 1767225600000, 1767225600000, '[1,2]', 0, '0.1.0');
"#;

/// A file as the first build leaves it behind.
fn first_build(path: &std::path::Path) {
    let shell = rusqlite::Connection::open(path).unwrap();
    shell.execute_batch(SPINE).unwrap();
    let migrations = "CREATE TABLE migrations (version INTEGER NOT NULL PRIMARY KEY, \
                      description TEXT NOT NULL, text TEXT NOT NULL) STRICT";
    shell.execute(migrations, ()).unwrap();
    shell.execute("INSERT INTO migrations VALUES (1, 'spine', ?1)", [SPINE]).unwrap();
    shell.execute_batch(ROWS).unwrap();
}

#[tokio::test]
async fn first_build_file_keeps_and_finishes_work() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("millstream.db");
    first_build(&path);
    let store = store_fixture::open(&path).await;
    let all = [
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
    assert_eq!(store.schema().await.unwrap().pending, Vec::<String>::new());

    let key = execution("o-1");
    let paid = EventId(uuid::Uuid::from_u128(2));
    let LoadVerdict::Found(loaded) = load(&store, std::slice::from_ref(&key)).await.remove(0) else {
        panic!("it does not load")
    };
    assert_eq!((loaded.seq, loaded.mailbox.len()), (Seq(2), 1));
    let (state, _) = loaded.state.unwrap();
    assert_eq!((state.parent, state.correlation), (None, None));
    let view = store.find_executions(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
    assert_eq!(view.status, ExecutionStatus::Active);
    let event = async || store.find_events(&[(key.tenant.clone(), paid)]).await.unwrap().remove(0).unwrap();
    assert_eq!(
        (event().await.status, event().await.payload),
        (EventStatus::Processing, raw(r#"{"a":  1.0}"#))
    );

    let actions = store.list_actions(&key, None, 10).await.unwrap();
    let shape: Vec<_> = actions.iter().map(|view| (view.key.action.as_str(), view.status)).collect();
    let expected = [
        ("charge", ActionStatus::Ready),
        ("receipt", ActionStatus::Waiting),
        ("log", ActionStatus::Succeeded),
    ];
    assert_eq!(shape, expected);
    assert!(
        actions.iter().all(|view| view.queue == ActionQueue::engine_for_all() && view.ready_at == Some(NOW))
    );
    assert_eq!(store.open_queues("").await.unwrap(), [ActionQueue::engine_for_all()]);

    let kinds: Vec<_> = store.list_decisions(&key).await.unwrap().into_iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ["retry", "pause"]);
    assert!(store.list_workers(NOW).await.unwrap()[0].beat.calls.is_empty());
    assert!(
        store.list_incidents(&key.tenant, &IncidentFilter::default(), None, 10).await.unwrap().is_empty()
    );

    let mut action = store.lease_each(&[worker()], &grant(5), NOW).await.unwrap().remove(0);
    assert_eq!((action.attempt, action.input.clone()), (2, Some(raw(r#"{"x":  1}"#))));
    for (done, status) in [("charge", EventStatus::Processing), ("receipt", EventStatus::Completed)] {
        assert_eq!(action.lease.key.action, name(done));
        let outcome = SettleOutcome::Succeeded { result: raw("1"), emit: None };
        let settlement = Settlement { lease: action.lease.clone(), event_id: paid, outcome };
        let settled = store.settle_actions(&worker(), &[settlement], &grant(1), NOW).await.unwrap();
        assert_eq!(settled.verdicts, [SettleVerdict::Recorded { event: status }]);
        action = settled.leased.into_iter().next().unwrap_or(action);
    }
    assert_eq!(event().await.status, EventStatus::Completed);
}

/// A migration is all or nothing.
#[tokio::test]
async fn failed_migration_leaves_file_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("millstream.db");
    first_build(&path);
    let shell = rusqlite::Connection::open(&path).unwrap();
    shell.execute("CREATE TABLE signals (mine TEXT)", ()).unwrap();
    let store = store_fixture::open(&path).await;
    assert!(matches!(store.migrate().await, Err(StoreError::Unavailable(_))));
    let all = [
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
    let actions: i64 = shell.query_row("SELECT count(*) FROM actions", (), |row| row.get(0)).unwrap();
    assert_eq!(actions, 3);

    shell.execute("DROP TABLE signals", ()).unwrap();
    store.migrate().await.unwrap();
    assert_eq!(store.list_actions(&execution("o-1"), None, 10).await.unwrap().len(), 3);
}
