//! Malformed input: bytes that are hardly HTTP, bodies that differ from their declaration, and clients that
//! disconnect in the middle. Each gets a refusal or a closed connection, nothing is half accepted, nothing
//! panics, and later clients are served.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_testkit::{FleetMode, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api::text_field;
use crate::definitions::COUNTER;
use crate::world::{E2eWorld, SOON, start_world};

both_modes!(
    malformed_http_is_refused,
    mislabelled_bodies_are_refused,
    truncated_body_is_no_event,
    disconnected_post_is_atomic,
    silent_connections_do_not_block_clients,
);

/// Starts an engine with one execution, `c-1`, that counts.
async fn with_counter(mode: FleetMode) -> E2eWorld {
    let world = start_world(mode).await;
    world.api.apply(COUNTER).await;
    let body = json!({ "definition": "counter", "execution_id": "c-1" });
    world.api.client.post("/v1/executions", &body).await.expect_status(201);
    world
}

fn ingress_address(world: &E2eWorld) -> String {
    world.fleet.url().replace("http://", "")
}

/// Sends bytes, closes the sending side, and reads the whole answer.
async fn exchange_bytes(world: &E2eWorld, bytes: &[u8]) -> String {
    let mut wire = TcpStream::connect(ingress_address(world)).await.unwrap();
    // A server that has refused the first half does not read the second.
    let _ = wire.write_all(bytes).await;
    let _ = wire.shutdown().await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(SOON, wire.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "no answer and no end to {:?}", String::from_utf8_lossy(bytes));
    String::from_utf8_lossy(&answer).into_owned()
}

/// The statuses of the answers on a connection, in order.
fn answer_statuses(answer: &str) -> Vec<u16> {
    let heads = answer.split("HTTP/1.").skip(1);
    heads.filter_map(|head| head.get(2..5)?.parse().ok()).collect()
}

/// The engine is up and ready, and nothing has panicked.
async fn assert_unharmed(mut world: E2eWorld) {
    world.api.client.get("/readyz").await.expect_status(200);
    let log = world.fleet.ingress().output_text();
    assert!(!log.contains("panicked"), "{log}");
}

async fn malformed_http_is_refused(mode: FleetMode) {
    let world = with_counter(mode).await;
    let large_head =
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(200 * 1024));
    let many_headers =
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(2_000));
    let long_target = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a/".repeat(100_000));
    let requests: &[&[u8]] = &[
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET  /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"G\xffT /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: local\0host\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n folded: yes\r\nhost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: \xff\xff\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://attacker.example/v1/workers HTTP/1.1\r\nhost: attacker.example\r\n\r\n",
        b"GET /v1/executions/%ff%fe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/executions/%00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/events?status=%zz&%ff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/executions/../../etc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n[]",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\n[]",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n[]\r\n0\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n[]",
        b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]garbage\r\n",
        large_head.as_bytes(),
        many_headers.as_bytes(),
        long_target.as_bytes(),
    ];
    for request in requests {
        let answer = exchange_bytes(&world, request).await;
        let refused = |status: &u16| (400..500).contains(status);
        assert!(
            answer_statuses(&answer).iter().all(refused),
            "{}: {answer}",
            String::from_utf8_lossy(request)
        );
    }
    assert_unharmed(world).await;
}

async fn mislabelled_bodies_are_refused(mode: FleetMode) {
    let world = with_counter(mode).await;
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_input = format!(r#"{{"definition":"counter","input":{deep}}}"#);
    let deep_yaml = format!("name: deep\nstates: {}", "{a: ".repeat(50_000));
    let aliases: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{m}, *a{m}]\n", m = n - 1)).collect();
    let aliases = format!("a0: &a0 [x, x]\n{aliases}");
    let (json, lines, yaml) = ("application/json", "application/x-ndjson", "application/yaml");
    let event = "/v1/executions/c-1/events";
    let not_text: &[u8] = b"{\"name\":\"\xff\xfe\"}";
    let cases: &[(&str, &str, &[u8], &[u16])] = &[
        (event, json, b"", &[400]),
        (event, json, b"{\"name\":\"add\"", &[400]),
        (event, json, b"{\"name\":\"add\"}}", &[400]),
        (event, json, b"\xef\xbb\xbf{\"name\":\"add\"}", &[400]),
        (event, json, not_text, &[400]),
        (event, json, b"{\"name\":\"\\ud800\"}", &[400, 422]),
        (event, json, b"{\"name\":\"add\",\"payload\":1e999}", &[202, 400, 422]),
        (event, json, deep.as_bytes(), &[400, 413, 422]),
        ("/v1/executions", json, deep_input.as_bytes(), &[413, 422]),
        ("/v1/executions", json, not_text, &[400]),
        ("/v1/events", json, deep.as_bytes(), &[202, 400, 413, 422]),
        ("/v1/events", json, b"[{},", &[400]),
        ("/v1/events", lines, not_text, &[400]),
        ("/v1/events", lines, b"{}\n\0\n{", &[202]),
        ("/v1/definitions", json, deep.as_bytes(), &[400, 413, 422]),
        ("/v1/definitions", yaml, deep_yaml.as_bytes(), &[400, 422]),
        ("/v1/definitions", yaml, aliases.as_bytes(), &[400, 422]),
        ("/v1/definitions", yaml, not_text, &[400]),
        ("/v1/definitions", yaml, b"\0\x01\x02", &[400, 422]),
    ];
    for (path, media, body, expected) in cases {
        let reply = world.api.client.post_raw(path, media, body.to_vec()).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
        assert!(
            expected.contains(&reply.status),
            "{path} {media} {shown:?}: {} {}",
            reply.status,
            reply.body
        );
        if reply.status >= 400 {
            reply.expect_problem(reply.status);
        }
    }
    let huge = vec![b' '; 9 * 1024 * 1024];
    for path in [event, "/v1/executions", "/v1/events", "/v1/definitions"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            huge.len()
        );
        let answer = exchange_bytes(&world, &[head.as_bytes(), &huge].concat()).await;
        // Cut off while it still sends, a client may not get to see the answer.
        assert!(matches!(answer_statuses(&answer)[..], [] | [413]), "{path}: {answer}");
    }
    assert_unharmed(world).await;
}

async fn truncated_body_is_no_event(mode: FleetMode) {
    let world = with_counter(mode).await;
    let post =
        "POST /v1/executions/c-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let body = r#"{"name":"add","payload":{"i":1}}"#;
    // Announced longer than it is: cut off inside a chunk, before the last chunk, inside the size.
    for short in [
        format!("{post}content-length: {}\r\n\r\n{body}", body.len() + 1),
        format!("{post}content-length: 10\r\n\r\n{{"),
        format!("{post}transfer-encoding: chunked\r\n\r\n{:x}\r\n{}", body.len(), &body[..9]),
        format!("{post}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len()),
        format!("{post}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0", body.len()),
    ] {
        let answer = exchange_bytes(&world, short.as_bytes()).await;
        assert!(matches!(answer_statuses(&answer)[..], [] | [400]), "{short}: {answer}");
    }
    // Announced shorter than it is: the rest is not a request, and is not parsed as one.
    let long = format!("{post}content-length: {}\r\n\r\n{body}GARBAGE\r\n\r\n", body.len());
    assert_eq!(answer_statuses(&exchange_bytes(&world, long.as_bytes()).await), [202, 400]);
    let cut = format!("{post}content-length: 7\r\n\r\n{body}");
    assert!(
        answer_statuses(&exchange_bytes(&world, cut.as_bytes()).await).iter().all(|status| *status == 400)
    );
    let events = world.api.events_of("c-1").await;
    let added = events.iter().filter(|event| event["name"] == "add").count();
    assert_eq!(added, 1, "{events:?}");
    assert_unharmed(world).await;
}

async fn disconnected_post_is_atomic(mode: FleetMode) {
    const CLIENTS: usize = 40;
    let world = with_counter(mode).await;
    let body = |n: usize| format!(r#"{{"name":"add","payload":{{"i":{n}}}}}"#);
    for n in 0..CLIENTS {
        let body = body(n);
        let request = format!(
            "POST /v1/executions/c-1/events HTTP/1.1\r\nhost: localhost\r\nidempotency-key: k-{n}\r\n\
             prefer: wait=30\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut wire = TcpStream::connect(ingress_address(&world)).await.unwrap();
        // Every third client disconnects before the end of its request.
        let said = if n % 3 == 0 { request.len() - n / 3 - 1 } else { request.len() };
        wire.write_all(&request.as_bytes()[..said]).await.unwrap();
        drop(wire);
    }
    // A repeat under the same key returns the outcome of the first attempt, or performs it.
    let mut ids = BTreeMap::new();
    for n in 0..CLIENTS {
        let key = format!("k-{n}");
        let reply =
            world.api.post_event_with("c-1", &[("idempotency-key", &key)], "add", json!({ "i": n })).await;
        ids.insert(text_field(&reply.expect_status(202), "event_id"), n);
    }
    assert_eq!(ids.len(), CLIENTS);
    let counted = eventually(SOON, || async {
        let context = world.api.execution("c-1").await["context"].clone();
        if context["n"].as_u64() >= Some(CLIENTS as u64) { Ok(context) } else { Err(context) }
    })
    .await;
    let mut seen: Vec<Value> = counted["seen"].as_array().unwrap().clone();
    seen.sort_by_key(Value::as_u64);
    assert_eq!(seen, (0..CLIENTS).map(|n| json!(n)).collect::<Vec<_>>(), "each once");
    assert_eq!(world.api.events_of("c-1").await.len(), CLIENTS + 1, "and none left over");
    assert_unharmed(world).await;
}

async fn silent_connections_do_not_block_clients(mode: FleetMode) {
    let world = with_counter(mode).await;
    let mut crowd = Vec::new();
    for n in 0..300 {
        let mut wire = TcpStream::connect(ingress_address(&world)).await.unwrap();
        if n % 2 == 0 {
            wire.write_all(b"POST /v1/events HTTP/1.1\r\nhost: loc").await.unwrap();
        }
        crowd.push(wire);
    }
    // Before the silent connections are closed for inactivity.
    let event = world.api.send_and_settle("c-1", "add", json!({ "i": 1 }));
    let event = tokio::time::timeout(Duration::from_secs(15), event).await.expect("a client was kept out");
    assert_eq!(event["status"], "completed");
    drop(crowd);
    assert_unharmed(world).await;
}
