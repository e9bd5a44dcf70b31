//! A private server with a stream on it, and the means to disturb both.

#![expect(clippy::unwrap_used, reason = "test support: a panic is how a test says that it failed")]

use std::time::{Duration, Instant};

use millstream_model::id::{ExecutionId, ExecutionKey, Seq, TenantId, WorkerId};
use millstream_model::lane::Lane;
use millstream_stream::announcement::Announcement;
use millstream_stream::doorbell::{Doorbell, DoorbellReader};
use millstream_stream::{RedisOptions, RedisStream, StreamError, StreamHandles};
use millstream_testkit::redis::{TestRedis, connect_patiently};
use redis::Value;
use redis::aio::MultiplexedConnection;

const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct RedisFixture {
    pub(super) server: TestRedis,
    pub(super) streams: StreamHandles,
    admin: redis::Client,
}

impl RedisFixture {
    pub(super) async fn start() -> Self {
        Self::with(RedisOptions::default()).await
    }

    pub(super) async fn with(options: RedisOptions) -> Self {
        let server = millstream_testkit::redis::private_redis().await;
        let streams = StreamHandles::from_backend(RedisStream::connect(&server.url, options).unwrap());
        let admin = redis::Client::open(server.url.as_str()).unwrap();
        Self { server, streams, admin }
    }

    pub(super) async fn join(&self, consumer: &str) -> Box<dyn DoorbellReader> {
        self.streams.bells.open_reader(&worker(consumer), &lanes()).await.unwrap()
    }

    pub(super) async fn command(&self, words: &[&str]) -> Value {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.query_async(&mut self.connection().await).await.unwrap()
    }

    /// The stream that receives all doorbells of these tests.
    pub(super) fn bells_key(&self) -> String {
        format!("millstream:{{l{}}}:bells", bell(0).lane().number())
    }

    /// Another key of the same lane.
    pub(super) fn lane_key(&self, name: &str) -> String {
        format!("millstream:{{l{}}}:{name}", bell(0).lane().number())
    }

    /// The keys of that lane, in order.
    pub(super) async fn window_keys(&self) -> Vec<String> {
        let found = self.command(&["KEYS", &self.lane_key("*")]).await;
        let mut keys: Vec<String> = redis::from_redis_value(found).unwrap();
        keys.sort();
        keys
    }

    /// Reads and acknowledges until `count` doorbells have arrived, across a lost group.
    pub(super) async fn answer(&self, reader: &mut Box<dyn DoorbellReader>, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        let mut heard = 0;
        while heard < count {
            assert!(Instant::now() < deadline, "{heard} of {count} came");
            let deliveries = match reader.read_deliveries(100, Duration::from_millis(200)).await {
                Err(StreamError::Amnesia(_)) => Vec::new(),
                read => read.unwrap(),
            };
            heard += deliveries.len();
            let entries: Vec<_> = deliveries.into_iter().map(|delivery| delivery.entry).collect();
            self.streams.bells.ack_entries(&entries).await.unwrap();
        }
        assert_eq!(heard, count);
    }

    pub(super) fn news(&self, seq: i64) -> Announcement {
        Announcement { execution: execution(1), seq: Seq(seq), event: None }
    }

    /// Waits until the server has a blocked client.
    pub(super) async fn until_blocked(&self) {
        millstream_testkit::eventually(PATIENCE, || async {
            let clients: String =
                redis::cmd("INFO").arg("clients").query_async(&mut self.connection().await).await.unwrap();
            if clients.contains("blocked_clients:1") { Ok(()) } else { Err(clients) }
        })
        .await;
    }

    pub(super) async fn kill_blocked_clients(&self) {
        let clients: String =
            redis::cmd("CLIENT").arg("LIST").query_async(&mut self.connection().await).await.unwrap();
        let blocked = clients.lines().filter(|line| line.contains("cmd=xreadgroup"));
        for id in blocked.filter_map(|line| line.split(' ').next()?.strip_prefix("id=")) {
            self.command(&["CLIENT", "KILL", "ID", id]).await;
        }
    }

    /// Publishes, and delivers the entries to `consumer` by a request outside its code: the state that a lost
    /// answer leaves on the server.
    pub(super) async fn hand_out_unseen(&self, consumer: &str, bells: &[Doorbell]) {
        self.streams.bells.publish_bells(bells).await.unwrap();
        let key = self.bells_key();
        self.command(&["XREADGROUP", "GROUP", "workers", consumer, "STREAMS", &key, ">"]).await;
    }

    /// Stops the server from answering until the returned connection is closed and the time is over.
    pub(super) async fn pause(&self) -> MultiplexedConnection {
        let mut connection = self.connection().await;
        redis::cmd("CLIENT").arg("PAUSE").arg(60_000).exec_async(&mut connection).await.unwrap();
        connection
    }

    async fn connection(&self) -> MultiplexedConnection {
        connect_patiently(&self.admin).await.unwrap()
    }
}

pub(super) fn worker(name: &str) -> WorkerId {
    WorkerId::parse(name).unwrap()
}

pub(super) fn lanes() -> Vec<Lane> {
    Lane::all().collect()
}

pub(super) fn execution(n: usize) -> ExecutionKey {
    ExecutionKey {
        tenant: TenantId::default_tenant(),
        execution: ExecutionId::parse(format!("x-{n}")).unwrap(),
    }
}

pub(super) fn bell(n: usize) -> Doorbell {
    Doorbell::Mailbox(execution(n))
}
