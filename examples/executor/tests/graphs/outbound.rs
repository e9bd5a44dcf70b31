//! What others are told of graphs: by webhook and by a Redis stream, in both modes, with processes that are killed.

use std::collections::{BTreeMap, BTreeSet};

use millstream_testkit::redis::{self, TestRedis};
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{TestSink, TestTail, eventually};
use serde_json::{Value, json};

use crate::mill::{Built, Mill, SOON, node};

const GRAPHS: usize = 12;

/// What was told of each graph, repetitions left out: id and type.
type Told = BTreeMap<String, Vec<(String, String)>>;

struct Listening {
    webhook: TestSink,
    redis: TestRedis,
}

impl Listening {
    async fn start() -> Self {
        Self { webhook: TestSink::start().await, redis: redis::private_redis().await }
    }

    async fn mill(&self, built: Built) -> Mill {
        let webhook = format!("crm={} secret=crm-new secret=crm-old", self.webhook.url("/hook"));
        let mut mill = Mill::idle_with(
            built,
            &[
                ("MILLSTREAM_OUTBOUND__STREAM", "bus"),
                ("MILLSTREAM_OUTBOUND__REDIS_URL", &self.redis.url),
                ("MILLSTREAM_OUTBOUND__WEBHOOKS", &webhook),
                ("MILLSTREAM_SECRET_CRM_NEW", "new"),
                ("MILLSTREAM_SECRET_CRM_OLD", "old"),
                ("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8"),
            ],
        )
        .await;
        mill.hire("first", &[]);
        mill
    }

    /// Requests that broke off in the middle were not heard.
    fn by_webhook(&self) -> Vec<Value> {
        let bodies = self.webhook.calls_to("/hook").into_iter().map(|call| call.body);
        let batches = bodies.filter_map(|body| serde_json::from_str::<Vec<Value>>(&body).ok());
        batches.flatten().collect()
    }

    async fn by_stream(&self) -> Vec<Value> {
        let entries = self.redis.stream_entries("bus").await;
        entries.into_iter().map(|fields| json!(fields)).collect()
    }
}

fn first_told(events: &[Value]) -> Told {
    let (mut told, mut seen) = (Told::new(), BTreeSet::new());
    for event in events {
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        assert_eq!(
            (text("specversion"), text("source")),
            ("1.0".to_owned(), "/millstream/default".to_owned())
        );
        if seen.insert((text("subject"), text("id"))) {
            told.entry(text("subject")).or_default().push((text("id"), text("type")));
        }
    }
    told
}

/// What those who watch see of these graphs.
async fn watched(mill: &Mill, graphs: &[String]) -> Told {
    let mut watched = Told::new();
    for graph in graphs {
        let mut tail = TestTail::open(&mill.api, &format!("/v1/graphs/{graph}/watch"), None).await;
        let of_graph = watched.entry(graph.clone()).or_default();
        while let Some(message) = tail.next(SOON).await {
            of_graph.push((message.id, format!("millstream.graph.{}", message.event)));
        }
    }
    watched
}

async fn everybody_hears_everything(mill: &Mill, listening: &Listening, graphs: &[String]) {
    for graph in graphs {
        mill.ends(graph, "PASSED").await;
    }
    let wanted = watched(mill, graphs).await;
    let count = |told: &Told| told.values().map(Vec::len).sum::<usize>();
    let (by_webhook, by_stream) = eventually(SOON, || async {
        let told = (first_told(&listening.by_webhook()), first_told(&listening.by_stream().await));
        let counts = (count(&told.0), count(&told.1), count(&wanted));
        if counts.0 >= counts.2 && counts.1 >= counts.2 { Ok(told) } else { Err(counts) }
    })
    .await;
    assert_eq!(by_webhook, wanted);
    assert_eq!(by_stream, wanted);
}

async fn create(mill: &Mill, batch: &str) -> Vec<String> {
    let mut graphs = Vec::new();
    for number in 0..GRAPHS {
        let chain: Vec<Value> = (0..6)
            .map(|step| {
                let parents: Vec<String> = (step > 0).then(|| format!("n{}", step - 1)).into_iter().collect();
                let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
                node(&format!("n{step}"), "sleep 20", &parents)
            })
            .collect();
        let id = format!("{batch}-{number}");
        let options = json!({ "node": { "retry": { "attempts": 10, "backoff": "100ms" } } });
        mill.create(&id, json!({ "nodes": chain, "options": options })).await;
        graphs.push(id);
    }
    graphs
}

async fn a_webhook_and_a_stream_hear_what_watchers_see(built: Built) {
    let listening = Listening::start().await;
    let failing =
        [SinkAnswer::Status(500), SinkAnswer::Status(200), SinkAnswer::Status(503), SinkAnswer::Status(200)];
    listening.webhook.set_answers("/hook", failing);
    let mill = listening.mill(built).await;
    let graphs = create(&mill, "g").await;
    // What was answered with an error was heard all the same, and is heard again.
    everybody_hears_everything(&mill, &listening, &graphs).await;
    let call = listening.webhook.calls_to("/hook").remove(0);
    assert_eq!(call.header("content-type"), Some("application/cloudevents-batch+json"));
    assert_eq!(call.header("webhook-signature").unwrap().split(' ').count(), 2);
    let by_stream = listening.by_stream().await;
    assert_eq!(by_stream.len(), first_told(&by_stream).values().map(Vec::len).sum::<usize>(), "once each");
}

async fn the_order_survives_processes_that_are_killed_while_they_tell(built: Built) {
    let listening = Listening::start().await;
    let mut mill = listening.mill(built).await;
    let mut graphs = Vec::new();
    for round in 0..3 {
        graphs.extend(create(&mill, &format!("r{round}")).await);
        let before = listening.by_webhook().len();
        eventually(SOON, || async {
            let heard = listening.by_webhook().len() - before;
            if heard >= 20 { Ok(()) } else { Err(heard) }
        })
        .await;
        match built {
            Built::Embedded => {
                mill.fleet.kill_ingress();
                mill.fleet.start_ingress(&[]).await;
            }
            Built::Fleet => {
                mill.fleet.kill_worker(2 * round);
                mill.fleet.kill_worker(2 * round + 1);
                mill.fleet.start_worker(&[]);
                mill.fleet.start_worker(&[]);
            }
        }
    }
    everybody_hears_everything(&mill, &listening, &graphs).await;
}

in_both_modes! {
    a_webhook_and_a_stream_hear_what_watchers_see
    the_order_survives_processes_that_are_killed_while_they_tell
}
