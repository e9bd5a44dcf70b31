//! A private Redis server that a test may kill, empty, stop and start.
//!
//! It persists nothing, unless a test asks for an append-only file: stopping it loses its data, which the
//! engine must survive. It does not evict, as the engine requires.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::certificates::{TestCa, TestCertificate};
use crate::daemon::TestProcess;
use crate::eventually::eventually;
use crate::guard::{self, ProcessEnding};
use crate::port;

const START: Duration = Duration::from_secs(15);
/// Time to answer a command of a test.
const ANSWER: Duration = Duration::from_secs(15);
const INSTALL: &str = "cannot run redis-server (or valkey-server); install it: \
                       `apt-get install redis-server` (Debian, Ubuntu), `dnf install valkey` (Fedora), \
                       `brew install redis` (macOS)";

/// Gone with this value.
#[derive(Debug)]
pub struct TestRedis {
    pub url: String,
    port: u16,
    memory: RedisMemoryPolicy,
    tls: Option<RedisServerTls>,
    server: Option<TestProcess>,
    directory: TempDir,
}

/// Certificate of a server with TLS, and its CA. Clients must present a certificate of that CA.
#[derive(Debug)]
struct RedisServerTls {
    certificate: TestCertificate,
    ca: String,
}

/// Persistence over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisMemoryPolicy {
    Nothing,
    /// An append-only file, flushed every second.
    AppendOnlyFile,
}

/// A new private server, running and empty.
pub async fn private_redis() -> TestRedis {
    server_with(RedisMemoryPolicy::Nothing).await
}

pub async fn server_with(memory: RedisMemoryPolicy) -> TestRedis {
    start_server(memory, None).await
}

/// A server that speaks TLS alone, with a certificate of this CA, and wants one of its clients (`rediss://`).
pub async fn server_with_tls(ca: &TestCa) -> TestRedis {
    let tls = RedisServerTls { certificate: ca.issue_local(), ca: ca.pem.clone() };
    start_server(RedisMemoryPolicy::Nothing, Some(tls)).await
}

async fn start_server(memory: RedisMemoryPolicy, tls: Option<RedisServerTls>) -> TestRedis {
    let directory = tempfile::Builder::new().prefix("millstream-redis-").tempdir().expect("make a directory");
    guard::watch_directory(directory.path());
    let port = port::free_port();
    let scheme = if tls.is_some() { "rediss" } else { "redis" };
    let url = format!("{scheme}://127.0.0.1:{port}/");
    let mut redis = TestRedis { url, port, memory, tls, server: None, directory };
    redis.start().await;
    redis
}

impl TestRedis {
    /// SIGKILL: everything it held is lost.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
    }

    /// SIGTERM, and waits for the end; everything it held is lost here too.
    pub async fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.signal(Signal::SIGTERM);
            server.wait_for_exit(START).await;
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process, to signal it. Fails when it is not running.
    pub fn server_process(&mut self) -> &mut TestProcess {
        self.server.as_mut().expect("a running server")
    }

    /// Starts on the same port with nothing in it, or does nothing when it runs.
    pub async fn start_empty(&mut self) {
        if self.server.is_none() {
            let _ = std::fs::remove_dir_all(self.append_only_files());
            self.start().await;
        }
    }

    /// Where the append-only file is kept, in parts.
    pub fn append_only_files(&self) -> PathBuf {
        self.directory.path().join("appendonlydir")
    }

    /// Starts on the same port with what its append-only files remember, or does nothing when it runs.
    pub async fn start(&mut self) {
        if self.server.is_some() {
            return;
        }
        let mut command = Command::new(find_binary());
        command.args(["--bind", "127.0.0.1", "--daemonize", "no"]);
        self.add_ports(&mut command);
        let appends = match self.memory {
            RedisMemoryPolicy::Nothing => "no",
            RedisMemoryPolicy::AppendOnlyFile => "yes",
        };
        command.args(["--save", "", "--appendonly", appends, "--maxmemory-policy", "noeviction"]);
        command.arg("--dir").arg(self.directory.path());
        let output = self.directory.path().join("redis.log");
        self.server = Some(TestProcess::start("redis", command, &output, ProcessEnding::Kill));
        let (client, server) = (self.client(), &mut self.server);
        eventually(START, move || {
            if let Some(server) = server.as_mut()
                && let Some(status) = server.exit_status()
            {
                panic!("redis ended with {status}: {}", server.output_text());
            }
            let client = client.clone();
            async move { command_on(&client, "PING").await }
        })
        .await;
    }

    fn add_ports(&self, command: &mut Command) {
        let port = self.port.to_string();
        let Some(tls) = &self.tls else {
            command.args(["--port", &port]);
            return;
        };
        let (certificate, key) = tls.certificate.write_pem_files(self.directory.path(), "redis");
        let ca = self.directory.path().join("ca.crt");
        std::fs::write(&ca, &tls.ca).expect("write the CA");
        command.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "yes"]);
        command.arg("--tls-cert-file").arg(certificate).arg("--tls-key-file").arg(key);
        command.arg("--tls-ca-cert-file").arg(ca);
    }

    fn client(&self) -> ::redis::Client {
        match &self.tls {
            None => ::redis::Client::open(self.url.as_str()).expect("an address"),
            Some(tls) => {
                crate::client::install_crypto();
                let client_tls = Some(::redis::ClientTlsConfig {
                    client_cert: tls.certificate.certificate.clone().into_bytes(),
                    client_key: tls.certificate.key.clone().into_bytes(),
                });
                let root_cert = Some(tls.ca.clone().into_bytes());
                let certificates = ::redis::TlsCertificates { client_tls, root_cert };
                ::redis::Client::build_with_tls(self.url.as_str(), certificates).expect("an address")
            }
        }
    }

    /// Changes a setting of the running server.
    pub async fn set_config(&self, name: &str, value: &str) {
        let client = self.client();
        let mut connection = connect_patiently(&client).await.expect("a running server");
        let mut set = ::redis::cmd("CONFIG");
        set.arg("SET").arg(name).arg(value);
        set.query_async::<()>(&mut connection).await.expect("CONFIG SET on the private server");
    }

    /// The fields of every entry of a stream, in order.
    pub async fn stream_entries(&self, stream: &str) -> Vec<BTreeMap<String, String>> {
        let client = self.client();
        let mut connection = connect_patiently(&client).await.expect("a running server");
        let mut range = ::redis::cmd("XRANGE");
        range.arg(stream).arg("-").arg("+");
        let entries: Vec<(String, BTreeMap<String, String>)> =
            range.query_async(&mut connection).await.expect("XRANGE on the private server");
        entries.into_iter().map(|(_, fields)| fields).collect()
    }

    pub async fn flush_all(&self) {
        command_on(&self.client(), "FLUSHALL").await.expect("FLUSHALL on the private server");
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        self.kill();
        guard::forget_directory(self.directory.path());
    }
}

fn find_binary() -> &'static str {
    ["redis-server", "valkey-server"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
        .unwrap_or_else(|| panic!("{INSTALL}"))
}

/// Copies the append-only files of a server, which may be running, to a directory.
pub fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

async fn command_on(client: &::redis::Client, command: &str) -> ::redis::RedisResult<String> {
    let mut connection = connect_patiently(client).await?;
    ::redis::cmd(command).query_async(&mut connection).await
}

/// A connection that waits for answers on a busy machine: the default timeout of the client is half a second.
pub async fn connect_patiently(
    client: &::redis::Client,
) -> ::redis::RedisResult<::redis::aio::MultiplexedConnection> {
    let config = ::redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER));
    client.get_multiplexed_async_connection_with_config(&config).await
}
