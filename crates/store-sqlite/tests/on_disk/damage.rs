//! A corrupt row makes its own execution corrupt and nothing else.

use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::IncidentId;
use millstream_model::incident::NewIncident;
use millstream_model::status::ExecutionPhase;
use millstream_store::action_store::ActionStore;
use millstream_store::event_log::{AppendRequest, Appended, EventLog};
use millstream_store::execution_store::LoadVerdict;
use millstream_store::incidents::{IncidentFilter, Incidents};
use millstream_store::intervention::{EventBurial, Interventions};
use millstream_store::task_board::TaskBoard;
use millstream_store::views::{ExecutionFilter, ExecutionViews};

use crate::store_fixture::{
    NOW, SqliteDesk, TTL, append, apply, correlated, event, execution, grant, load, signal, start, worker,
};

fn damage(desk: &SqliteDesk, statement: &'static str) {
    let done = desk.shell().execute(statement, ()).unwrap();
    assert_eq!(done, 1, "the case is void: nothing was damaged");
}

async fn two_executions() -> SqliteDesk {
    let desk = SqliteDesk::fresh().await;
    for key in [execution("o-1"), execution("o-2")] {
        append(
            &desk.store,
            &[start(&key, "{}", ExecutionPhase::Active), AppendRequest::Event(event(&key, "{}"))],
        )
        .await;
    }
    desk
}

#[tokio::test]
async fn damaged_snapshot_is_corrupt_alone() {
    for statement in [
        "UPDATE executions SET snapshot = '{' WHERE execution_id = 'o-1'",
        "UPDATE executions SET snapshot = replace(snapshot, '\"format\":1', '\"format\":99') WHERE execution_id = 'o-1'",
        "UPDATE executions SET snapshot_seq = 0 WHERE execution_id = 'o-1'",
        "UPDATE executions SET seq = 2 WHERE execution_id = 'o-1'",
        "UPDATE executions SET definition = 'Not A Name' WHERE execution_id = 'o-1'",
        "UPDATE events SET name = '' WHERE execution_id = 'o-1' AND name = 'pay'",
    ] {
        let desk = two_executions().await;
        damage(&desk, statement);
        let loaded = load(&desk.store, &[execution("o-1"), execution("o-2"), execution("o-3")]).await;
        assert!(matches!(loaded[0], LoadVerdict::Corrupt { .. }), "{statement}: {:?}", loaded[0]);
        assert!(matches!(loaded[1], LoadVerdict::Found(_)), "{statement}: {:?}", loaded[1]);
        assert!(matches!(loaded[2], LoadVerdict::Missing), "{statement}: {:?}", loaded[2]);
    }
}

#[tokio::test]
async fn damaged_action_does_not_block_leases() {
    for statement in [
        "UPDATE actions SET needs = 'x' WHERE execution_id = 'o-1'",
        "UPDATE actions SET action = 'Not A Name' WHERE execution_id = 'o-1'",
    ] {
        let desk = two_executions().await;
        apply(&desk.store, &execution("o-1"), "{}").await;
        apply(&desk.store, &execution("o-2"), "{}").await;
        damage(&desk, statement);
        let expired = NOW.plus(TTL).plus(Duration::from_millis(1));
        let mut leased = Vec::new();
        for _ in 0..2 {
            leased.extend(desk.store.lease_each(&[worker()], &grant(1), expired).await.unwrap());
        }
        let keys: Vec<_> = leased.iter().map(|action| action.lease.key.execution.clone()).collect();
        assert_eq!(keys, [execution("o-2")], "{statement}");
    }
}

#[tokio::test]
async fn damaged_execution_does_not_hide_list() {
    for statement in [
        "UPDATE executions SET snapshot = '{' WHERE execution_id = 'o-1'",
        "UPDATE executions SET seq = 2 WHERE execution_id = 'o-1'",
        "UPDATE transitions SET decision = '{' WHERE execution_id = 'o-1'",
    ] {
        let desk = two_executions().await;
        if statement.contains("transitions") {
            damage(&desk, "UPDATE executions SET snapshot_seq = 0 WHERE execution_id = 'o-1'");
        }
        damage(&desk, statement);
        let tenant = execution("o-1").tenant;
        let listed =
            desk.store.list_executions(&tenant, &ExecutionFilter::default(), None, 10).await.unwrap();
        let shown: Vec<_> = listed
            .iter()
            .map(|view| (view.execution.execution.as_str(), view.unreadable.is_some()))
            .collect();
        assert_eq!(shown, [("o-2", false), ("o-1", true)], "{statement}");
        assert!(listed[1].state.context.is_empty());
    }
}

#[tokio::test]
async fn damaged_queue_does_not_hide_others() {
    let desk = two_executions().await;
    apply(&desk.store, &execution("o-1"), "{}").await;
    apply(&desk.store, &execution("o-2"), "{}").await;
    damage(&desk, "UPDATE actions SET queue = 'nonsense' WHERE execution_id = 'o-1'");
    assert_eq!(desk.store.open_queues("").await.unwrap(), [ActionQueue::engine_for_all()]);
}

#[tokio::test]
async fn damaged_signal_does_not_block_delivery() {
    let desk = SqliteDesk::fresh().await;
    let (first, second) = (signal("k-1", "1"), signal("k-1", "2"));
    for sent in [&first, &second] {
        let batch = [AppendRequest::Signal(Box::new(sent.clone()))];
        assert_eq!(desk.store.append(&batch, NOW).await.unwrap(), [Appended::Buffered]);
    }
    damage(&desk, "UPDATE signals SET name = '' WHERE payload = '1'");
    let key = execution("o-1");
    append(&desk.store, &[correlated(&key, "k-1")]).await;
    let LoadVerdict::Found(loaded) = load(&desk.store, &[key]).await.remove(0) else { panic!("not there") };
    let ids: Vec<_> = loaded.mailbox.iter().map(|waiting| waiting.event_id).collect();
    assert_eq!(ids, [second.event_id]);
}

#[tokio::test]
async fn damaged_incident_does_not_hide_others() {
    let desk = SqliteDesk::fresh().await;
    let tenant = execution("o-1").tenant;
    for (n, id) in [(1, "o-1"), (2, "o-2")] {
        let key = execution(id);
        let dead = event(&key, "{}");
        append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active), AppendRequest::Event(dead.clone())])
            .await;
        let incident = NewIncident {
            id: IncidentId(uuid::Uuid::from_u128(n)),
            class: ErrorClass::Internal,
            reason: "crashed".to_owned(),
        };
        let error = "crashed".to_owned();
        let burial = EventBurial { execution: key, event_id: dead.event_id, error, incident };
        desk.store.bury_events(&[burial], NOW).await.unwrap();
    }
    damage(&desk, "UPDATE incidents SET class = 'Not A Name' WHERE execution_id = 'o-1'");
    let listed = desk.store.list_incidents(&tenant, &IncidentFilter::default(), None, 10).await.unwrap();
    let shown: Vec<_> = listed.iter().map(|view| view.execution.execution.as_str()).collect();
    assert_eq!(shown, ["o-2"]);
    assert_eq!(desk.store.incident_groups(&tenant, 10).await.unwrap().len(), 1);
}
