//! Views of child executions, of correlations, and of actions that external workers perform.

use millstream_expr::ExprBudget;
use millstream_model::id::{DefinitionRef, ExecutionKey, Name, Seq, TenantId};
use millstream_model::raw::RawJson;
use millstream_store::action_store::{Lease, LeaseHeartbeat};
use millstream_store::event_log::{AppendRequest, EventSubmission, ExecutionStart};
use millstream_workflow::log::{EventOrigin, ExecutionParent};
use millstream_workflow::machine::{Machine, create_execution_within};
use serde_json::{Value, json};

use crate::bench::{Bench, key};
use crate::failed_actions::{grant, worker};

const MIXED: &str = r#"
name: mixed
initial: open
states: { open: { on: { go: { do: [own, theirs, ours] } } } }
actions:
  own: { call: charge, input: { a: 1 } }
  theirs: { task: { type: resize, labels: [gpu, big], input: { b: 2 } } }
  ours: { noop: 1 }
"#;

#[tokio::test]
async fn action_shows_performer_and_progress() {
    let bench = Bench::open();
    bench.define(MIXED).await;
    let body = json!({"definition": "mixed", "execution_id": "m-1", "events": [{"name": "go"}]});
    bench.post("/v1/executions", &body).await;
    bench.decide("m-1").await;
    let queue = millstream_model::action_queue::ActionQueue::call_of(
        &TenantId::default_tenant(),
        &Name::parse("charge").unwrap(),
    );
    let grant = grant(queue);
    let leased = bench.stores.actions.lease(&worker(), &grant, bench.clock.now()).await.unwrap();
    let lease: Lease = leased[0].lease.clone();
    let beat = LeaseHeartbeat { lease, progress: Some(RawJson::parse(r#"{"page":3}"#).unwrap()) };
    bench.stores.actions.renew_leases(&[beat], &worker(), &grant, bench.clock.now()).await.unwrap();

    let actions = bench.get("/v1/executions/m-1/actions").await.json();
    let [own, theirs, ours] = actions["items"].as_array().unwrap().as_slice() else { panic!("{actions}") };
    assert_eq!((&own["function"], &own["progress"]), (&json!("charge"), &json!({"page": 3})));
    assert_eq!((&theirs["type"], &theirs["labels"]), (&json!("resize"), &json!(["big", "gpu"])));
    assert_eq!((&theirs["progress"], &theirs["revision"]), (&Value::Null, &json!(0)));
    for absent in ["function", "type", "labels"] {
        assert!(ours.get(absent).is_none(), "{ours}");
    }
    assert!(own.get("type").is_none() && theirs.get("function").is_none());
}

#[tokio::test]
async fn execution_shows_correlation_and_parent() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let plain = bench.get("/v1/executions/o-1").await.json();
    assert!(plain.get("parent").is_none() && plain.get("correlation").is_none(), "{plain}");

    let source = "{name: kid, initial: a, correlate: context.order, states: {a: {on: {go: {}}}}}";
    bench.define(source).await;
    let body = json!({"definition": "kid", "execution_id": "k-1", "input": {"order": "o-1"}});
    let started = bench.post("/v1/executions", &body).await.json();
    assert_eq!(started["correlation"], "o-1", "{started}");

    let definition =
        millstream_workflow::definition_parser::parse(source, millstream_model::document::SourceFormat::Yaml)
            .unwrap();
    let machine = Machine::compile(definition).unwrap();
    let parent = ExecutionParent {
        execution: key("o-1").execution,
        seq: Seq(3),
        action: Name::parse("ask").unwrap(),
        close: millstream_workflow::definition::ParentClose::Cancel,
        depth: 1,
    };
    let event_id = millstream_model::entropy::derived_event_id("child");
    let input = RawJson::parse(r#"{"order":"o-2"}"#).unwrap();
    let now = bench.clock.now();
    let (applied, state) =
        create_execution_within(&machine, event_id, &input, Some(parent), now, &ExprBudget::default())
            .unwrap();
    let child: ExecutionKey = key("k-2");
    let new = ExecutionStart {
        key: child.clone(),
        definition: DefinitionRef { name: Name::parse("kid").unwrap(), version: 1 },
        input_hash: [0; 32],
        start: EventSubmission {
            event_id,
            execution: child,
            name: Name::start_event(),
            payload: input,
            origin: EventOrigin::Posted,
            idempotency: None,
            actor: None,
            traceparent: None,
        },
        applied,
        state,
        events: Vec::new(),
        graph: None,
    };
    bench.stores.events.append(&[AppendRequest::Start(Box::new(new))], now).await.unwrap();
    let shown = bench.get("/v1/executions/k-2").await.json();
    assert_eq!(shown["parent"], json!({"execution_id": "o-1", "seq": 3, "action": "ask"}));
    assert_eq!(shown["correlation"], "o-2");
    let listed = bench.get("/v1/executions?definition=kid&limit=1").await.json();
    assert_eq!(listed["items"][0]["parent"], shown["parent"]);
    let then = bench.get("/v1/executions/k-2?at_seq=1").await.json();
    assert_eq!(then["parent"], shown["parent"]);
}
