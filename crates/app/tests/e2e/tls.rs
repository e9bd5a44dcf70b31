//! TLS from end to end, with certificates of a private CA made in the test: the ingress with client certificates,
//! PostgreSQL, Redis, HTTP actions, the command line, and certificates that change under load.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream_rpc::proto::node_service_server::{NodeService, NodeServiceServer};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse, NodeStatus};
use millstream_testkit::certificates::{TlsFront, connect_tls};
use millstream_testkit::client::tls_client;
use millstream_testkit::fleet::FleetEnv;
use millstream_testkit::{
    FleetMode, TestCa, TestCertificate, TestClient, TestFleet, TestSink, eventually, port, postgres, redis,
};
use serde_json::{Value, json};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::definitions::{CHARGE, COUNTER};
use crate::world::{EMBEDDED, SOON, start_with};

/// Clients with a persistent connection, and the same number with one connection per request.
const CLIENTS: usize = 3;
/// Number of replacements of the first certificate.
const ROTATIONS: usize = 3;

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The certificate served to a new connection.
async fn served_certificate(ca: &TestCa, address: SocketAddr) -> Vec<u8> {
    let stream = connect_tls(&ca.tls_connector(None, &[]), address).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn certificate_rotation_fails_no_request() {
    let (ca, directory) = (Arc::new(TestCa::new("private")), tempfile::tempdir().unwrap());
    let (certificate, key) = ca.issue_local().write_pem_files(directory.path(), "door");
    let address: SocketAddr = format!("127.0.0.1:{}", port::free_port()).parse().unwrap();
    let listen = address.to_string();
    let world = start_with(
        EMBEDDED,
        &[
            ("MILLSTREAM_LISTEN_TLS", &listen),
            ("MILLSTREAM_TLS__CERTIFICATE", path_text(&certificate)),
            ("MILLSTREAM_TLS__KEY", path_text(&key)),
        ],
    )
    .await;
    world.api.apply(COUNTER).await;
    world.api.start_with_events("counter", "c-1", json!({}), &[]).await;

    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = (0..2 * CLIENTS).map(|client| {
        let (ca, is_over, answered) = (ca.clone(), is_over.clone(), answered.clone());
        let url = format!("https://{address}/v1/executions/c-1/events");
        tokio::spawn(async move {
            let kept = tls_client(&ca, None);
            while !is_over.load(Ordering::Relaxed) {
                let http = if client < CLIENTS { kept.clone() } else { tls_client(&ca, None) };
                let event = json!({ "name": "add", "payload": { "i": client } });
                let answer = http.post(&url).json(&event).send().await.expect("an answer");
                assert!(answer.status().is_success(), "{answer:?}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let load: Vec<_> = load.collect();
    let more_requests = async || {
        let wanted = answered.load(Ordering::Relaxed) + 10 * CLIENTS as u64;
        eventually(SOON, || {
            let (seen, failed) =
                (answered.load(Ordering::Relaxed), load.iter().any(tokio::task::JoinHandle::is_finished));
            async move { if failed || seen >= wanted { Ok(()) } else { Err(seen) } }
        })
        .await;
    };
    more_requests().await;
    for _ in 0..ROTATIONS {
        let fresh = ca.issue_local();
        fresh.write_pem_files(directory.path(), "door");
        let wanted = fresh.certificate_chain()[0].to_vec();
        eventually(SOON, || async {
            if served_certificate(&ca, address).await == wanted {
                Ok(())
            } else {
                Err("another certificate is shown")
            }
        })
        .await;
        more_requests().await;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in load {
        client.await.expect("every request is answered");
    }
    let sent = answered.load(Ordering::Relaxed);
    world.api.execution_until("c-1", |execution| execution["context"]["n"] == json!(sent)).await;
}

/// TLS files of a fleet in which every connection has TLS.
struct PrivateFiles {
    directory: tempfile::TempDir,
    servers: TestCa,
    clients: TestCa,
    client: TestCertificate,
}

impl PrivateFiles {
    fn make() -> Self {
        let (servers, clients) = (TestCa::new("servers"), TestCa::new("clients"));
        let directory = tempfile::tempdir().unwrap();
        servers.write_pem(&directory.path().join("ca.crt"));
        clients.write_pem(&directory.path().join("clients.crt"));
        servers.issue_local().write_pem_files(directory.path(), "door");
        servers.issue_certificate(&["engine"]).write_pem_files(directory.path(), "engine");
        let client = clients.issue_certificate(&["operator"]);
        client.write_pem_files(directory.path(), "client");
        Self { directory, servers, clients, client }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

/// An executor whose nodes all pass.
struct PassingExecutor;

#[tonic::async_trait]
impl NodeService for PassingExecutor {
    async fn execute_node(
        &self,
        request: Request<ExecuteNodeRequest>,
    ) -> Result<Response<ExecuteNodeResponse>, Status> {
        let ExecuteNodeRequest { workflow_id, node_id, .. } = request.into_inner();
        let status = NodeStatus::Pass.into();
        let results_json = "1".to_owned();
        Ok(Response::new(ExecuteNodeResponse {
            workflow_id,
            node_id,
            status,
            results_json,
            ..Default::default()
        }))
    }
}

/// Until the test ends.
async fn start_executor() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(NodeServiceServer::new(PassingExecutor));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

async fn known_graph(fleet: &TestFleet, id: &str) -> Value {
    fleet.client().get(&format!("/v1/graphs/{id}")).await.expect_status(200)
}

#[track_caller]
fn assert_failed(output: &Output, reason: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains(reason), "{output:?}");
}

#[tokio::test]
async fn fleet_uses_tls_on_every_connection() {
    let files = PrivateFiles::make();
    // Not for the name `localhost`, which verify-full must refuse.
    let database = postgres::cluster_with_tls(&files.servers.issue_certificate(&["127.0.0.1"])).await;
    let plain_url = database.create_database("mill").await;
    let url =
        |sslmode: &str, ca: &str| format!("{plain_url}?sslmode={sslmode}&sslrootcert={}", files.path(ca));
    let redis = redis::server_with_tls(&files.servers).await;
    let sink = TestSink::start().await;
    let target: SocketAddr = sink.url("").trim_start_matches("http://").parse().unwrap();
    let service = TlsFront::in_front_of(target, &files.servers.issue_local()).await;
    let performer = TlsFront::in_front_of(start_executor().await, &files.servers.issue_local()).await;
    let door = format!("127.0.0.1:{}", port::free_port());
    let settings = [
        ("MILLSTREAM_DATABASE_URL", url("verify-full", "ca.crt")),
        ("MILLSTREAM_REDIS_URL", redis.url.clone()),
        ("MILLSTREAM_REDIS__CA_FILE", files.path("ca.crt")),
        ("MILLSTREAM_REDIS__CLIENT_CERTIFICATE", files.path("engine.crt")),
        ("MILLSTREAM_REDIS__CLIENT_KEY", files.path("engine.key")),
        ("MILLSTREAM_WORKER__EXECUTORS", format!("performer={}", performer.url())),
        ("MILLSTREAM_LISTEN_TLS", door.clone()),
        ("MILLSTREAM_TLS__CERTIFICATE", files.path("door.crt")),
        ("MILLSTREAM_TLS__KEY", files.path("door.key")),
        ("MILLSTREAM_TLS__CLIENT_CA", files.path("clients.crt")),
        ("MILLSTREAM_TLS__CA_FILE", files.path("ca.crt")),
        ("MILLSTREAM_TLS__CLIENT_CERTIFICATE", files.path("client.crt")),
        ("MILLSTREAM_TLS__CLIENT_KEY", files.path("client.key")),
    ];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let world = start_with(FleetMode::Fleet { workers: 1 }, &settings).await;
    let door_url = format!("https://{door}");
    let run = |env: FleetEnv<'_>, arguments: &[&str]| {
        let env = [&[("MILLSTREAM_URL", door_url.as_str())], env].concat();
        world.fleet.command(&env).args(arguments).output().expect("run the binary")
    };

    // An event uses all connections: command line, ingress, PostgreSQL, Redis, worker, and an HTTP action.
    let definition = world.fleet.directory().join("charge.yaml");
    std::fs::write(&definition, CHARGE.replace("SINK", &service.url())).unwrap();
    for arguments in [
        &["apply", path_text(&definition)][..],
        &["start", "charge", "--id", "p-1", "--input", r#"{"order_id":1}"#],
        &["send", "p-1", "pay", "--payload", r#"{"amount":3}"#],
    ] {
        let output = run(&[], arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    world.api.execution_in("p-1", "completed").await;
    assert_eq!(sink.recorded_calls().len(), 1);

    // A node of a graph is performed by an executor with TLS.
    let graph = json!({ "name": "one", "nodes": [{ "id": "a" }] });
    let file = world.fleet.directory().join("graph.json");
    std::fs::write(&file, graph.to_string()).unwrap();
    let created = run(&[], &["graph", "create", path_text(&file), "--id", "g-1"]);
    assert!(created.status.success(), "{created:?}");
    eventually(SOON, || async {
        let graph = known_graph(&world.fleet, "g-1").await;
        if graph["status"] == json!("PASSED") { Ok(()) } else { Err(graph) }
    })
    .await;

    // Unauthorized connections are refused by the side that checks.
    assert_failed(&run(&[("MILLSTREAM_TLS__CA_FILE", "")], &["list"]), "certificate");
    let unknown = [("MILLSTREAM_TLS__CLIENT_CERTIFICATE", ""), ("MILLSTREAM_TLS__CLIENT_KEY", "")];
    assert_failed(&run(&unknown, &["list"]), "cannot reach");
    let stranger = TestClient::with_tls(&door_url, &files.servers, None);
    assert!(stranger.request(reqwest::Method::GET, "/healthz").send().await.is_err());
    let known = TestClient::with_tls(&door_url, &files.servers, Some(&files.client));
    assert_eq!(known.get("/healthz").await.status, 200);
    let foreign = url("verify-full", "clients.crt");
    assert_failed(&run(&[("MILLSTREAM_DATABASE_URL", &foreign)], &["migrate"]), "certificate");
    let misnamed = url("verify-full", "ca.crt").replace("127.0.0.1", "localhost");
    assert_failed(&run(&[("MILLSTREAM_DATABASE_URL", &misnamed)], &["migrate"]), "certificate");
    let unnamed = url("verify-ca", "ca.crt").replace("127.0.0.1", "localhost");
    let migrated = run(&[("MILLSTREAM_DATABASE_URL", &unnamed)], &["migrate"]);
    assert!(migrated.status.success(), "{migrated:?}");
    drop(files.clients);
}
