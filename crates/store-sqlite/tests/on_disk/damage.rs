//! One bad row spoils its own execution and nothing else.

use std::time::Duration;

use millstream_core::status::Phase;
use millstream_store::action_store::ActionStore;
use millstream_store::event_log::Append;
use millstream_store::execution_store::Loaded;
use millstream_store::views::{ExecutionFilter, ExecutionViews};

use crate::desk::{Desk, NOW, TTL, append, apply, event, execution, grant, load, start, worker};

fn damage(desk: &Desk, statement: &'static str) {
    let done = desk.shell().execute(statement, ()).unwrap();
    assert_eq!(done, 1, "the case is void: nothing was damaged");
}

async fn two_executions() -> Desk {
    let desk = Desk::fresh().await;
    for key in [execution("o-1"), execution("o-2")] {
        append(&desk.store, &[start(&key, "{}", Phase::Active), Append::Event(event(&key, "{}"))]).await;
    }
    desk
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_is_corrupt_for_its_execution_alone() {
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
        assert!(matches!(loaded[0], Loaded::Corrupt { .. }), "{statement}: {:?}", loaded[0]);
        assert!(matches!(loaded[1], Loaded::Found(_)), "{statement}: {:?}", loaded[1]);
        assert!(matches!(loaded[2], Loaded::Missing), "{statement}: {:?}", loaded[2]);
    }
}

#[tokio::test]
async fn an_action_that_cannot_be_read_does_not_hold_up_the_others() {
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
            leased.extend(desk.store.lease(&worker(), &grant(1), expired).await.unwrap());
        }
        let keys: Vec<_> = leased.iter().map(|action| action.lease.key.execution.clone()).collect();
        assert_eq!(keys, [execution("o-2")], "{statement}");
    }
}

#[tokio::test]
async fn an_execution_that_cannot_be_read_does_not_hide_the_others_in_a_list() {
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
