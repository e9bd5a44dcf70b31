//! The Redis backend passes the suite, on a private server per case.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says that it failed")]

use millstream_stream::conformance::Bench;
use millstream_stream::{RedisOptions, RedisStream, Streams};

async fn fresh() -> Bench {
    let server = millstream_testkit::redis::server().await;
    let stream = RedisStream::connect(&server.url, RedisOptions::default()).unwrap();
    Bench::new(Streams::of(stream)).keeping(server)
}

millstream_stream::stream_conformance_tests!(fresh().await);
