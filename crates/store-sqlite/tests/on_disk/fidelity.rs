//! Stored bytes are returned unchanged.

use millstream_model::id::Seq;
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_store::StoreError;
use millstream_store::action_store::{ActionStore, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::event_log::{AppendRequest, EventLog, EventSubmission};
use millstream_store::execution_store::{CommitVerdict, LoadVerdict};
use millstream_store::views::{EventViews, ExecutionViews};

use crate::store_fixture::{
    NOW, SqliteDesk, append, apply, event, execution, grant, load, raw, start, worker,
};

/// JSON spellings that a JSON-aware database would normalise.
const SPELLINGS: [&str; 12] = [
    r#"{"b":1.50,  "a":"\u0000"}"#,
    r#"{"a":1,"a":2}"#,
    "1.0e+002",
    "123456789012345678901234567890",
    "-0.0",
    r#""\u00e4 \ud83d\ude00 \/ 'quoted' \\u0000""#,
    "\"\u{1F600}\u{7F}\u{2028}\"",
    "[ 1 ,\n\t2 ]",
    "null",
    "true",
    r#""""#,
    r#"{"x":{"y":[{"z":"\ud800"}]}}"#,
];

#[tokio::test]
async fn stored_json_keeps_its_spelling() {
    let desk = SqliteDesk::fresh().await;
    for (n, text) in SPELLINGS.iter().enumerate() {
        let key = execution(&format!("o-{n}"));
        let posted = event(&key, text);
        append(
            &desk.store,
            &[start(&key, text, ExecutionPhase::Active), AppendRequest::Event(posted.clone())],
        )
        .await;

        let loaded = load(&desk.store, std::slice::from_ref(&key)).await.remove(0);
        let LoadVerdict::Found(loaded) = loaded else { panic!("{text}: {loaded:?}") };
        assert_eq!(loaded.mailbox[0].payload.as_str(), *text);
        assert_eq!(loaded.state.unwrap().0.context["input"].as_str(), *text);

        let committed = apply(&desk.store, &key, text).await;
        let CommitVerdict::Done { leased, .. } = committed else { panic!("{text}: {committed:?}") };
        assert_eq!(leased[0].input.as_ref().unwrap().as_str(), *text);
        let settlement = Settlement {
            lease: leased[0].lease.clone(),
            event_id: posted.event_id,
            outcome: SettleOutcome::Succeeded { result: raw(text), emit: None },
        };
        let settled = desk.store.settle_actions(&worker(), &[settlement], &grant(10), NOW).await.unwrap();
        assert_eq!(settled.verdicts, [SettleVerdict::Recorded { event: EventStatus::Completed }]);

        let history = desk.store.read_history(&key, Seq(0), 10).await.unwrap();
        assert!(history.entries.iter().all(|entry| entry.payload.as_str() == *text), "{text}: {history:?}");
        let action = desk.store.list_actions(&key, None, 100).await.unwrap().remove(0);
        assert_eq!(action.result.unwrap().as_str(), *text);
        let view = desk.store.find_executions(&[key]).await.unwrap().remove(0).unwrap();
        assert_eq!(view.state.context["event"].as_str(), *text);
    }
}

#[tokio::test]
async fn nul_text_is_refused_as_on_postgres() {
    let desk = SqliteDesk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", ExecutionPhase::Active)]).await;
    let hostile = EventSubmission { actor: Some("a\0b".to_owned()), ..event(&key, "{}") };
    let refused = desk.store.append(&[AppendRequest::Event(hostile.clone())], NOW).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    let tenant = key.tenant.clone();
    assert!(desk.store.find_events(&[(tenant, hostile.event_id)]).await.unwrap()[0].is_none());
    append(&desk.store, &[AppendRequest::Event(event(&key, "{}"))]).await;
}
