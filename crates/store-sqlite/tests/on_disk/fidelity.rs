//! Stored bytes are returned unchanged.

use millstream_core::id::Seq;
use millstream_core::status::{EventStatus, Phase};
use millstream_store::StoreError;
use millstream_store::action_store::{ActionStore, SettleVerdict, Settlement, Settling};
use millstream_store::event_log::{Append, EventLog, NewEvent};
use millstream_store::execution_store::{Committed, Loaded};
use millstream_store::views::{EventViews, ExecutionViews};

use crate::desk::{Desk, NOW, append, apply, event, execution, grant, load, raw, start, worker};

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
async fn payloads_inputs_and_results_keep_their_spelling() {
    let desk = Desk::fresh().await;
    for (n, text) in SPELLINGS.iter().enumerate() {
        let key = execution(&format!("o-{n}"));
        let posted = event(&key, text);
        append(&desk.store, &[start(&key, text, Phase::Active), Append::Event(posted.clone())]).await;

        let loaded = load(&desk.store, std::slice::from_ref(&key)).await.remove(0);
        let Loaded::Found(loaded) = loaded else { panic!("{text}: {loaded:?}") };
        assert_eq!(loaded.mailbox[0].payload.as_str(), *text);
        assert_eq!(loaded.state.unwrap().0.context["input"].as_str(), *text);

        let committed = apply(&desk.store, &key, text).await;
        let Committed::Done { leased, .. } = committed else { panic!("{text}: {committed:?}") };
        assert_eq!(leased[0].input.as_ref().unwrap().as_str(), *text);
        let settlement = Settlement {
            lease: leased[0].lease.clone(),
            event_id: posted.event_id,
            outcome: Settling::Succeeded { result: raw(text), emit: None },
        };
        let settled = desk.store.settle(&worker(), &[settlement], &grant(10), NOW).await.unwrap();
        assert_eq!(settled.verdicts, [SettleVerdict::Recorded { event: EventStatus::Completed }]);

        let history = desk.store.history(&key, Seq(0), 10).await.unwrap();
        assert!(history.entries.iter().all(|entry| entry.payload.as_str() == *text), "{text}: {history:?}");
        let action = desk.store.actions(&key, None, 100).await.unwrap().remove(0);
        assert_eq!(action.result.unwrap().as_str(), *text);
        let view = desk.store.executions(&[key]).await.unwrap().remove(0).unwrap();
        assert_eq!(view.state.context["event"].as_str(), *text);
    }
}

#[tokio::test]
async fn text_with_a_null_character_is_refused_as_on_postgresql() {
    let desk = Desk::fresh().await;
    let key = execution("o-1");
    append(&desk.store, &[start(&key, "{}", Phase::Active)]).await;
    let hostile = NewEvent { actor: Some("a\0b".to_owned()), ..event(&key, "{}") };
    let refused = desk.store.append(&[Append::Event(hostile.clone())], NOW).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    let tenant = key.tenant.clone();
    assert!(desk.store.events(&[(tenant, hostile.event_id)]).await.unwrap()[0].is_none());
    append(&desk.store, &[Append::Event(event(&key, "{}"))]).await;
}
