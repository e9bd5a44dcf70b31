//! The Redis backend passes the suite, on a private server per case.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says that it failed")]

use millstream_stream::{RedisOptions, RedisStream, StreamHandles};
use millstream_stream_conformance::StreamFixture;

async fn fresh() -> StreamFixture {
    let server = millstream_testkit::redis::private_redis().await;
    let stream = RedisStream::connect(&server.url, RedisOptions::default()).unwrap();
    StreamFixture::new(StreamHandles::from_backend(stream)).keeping(server)
}

millstream_stream_conformance::stream_conformance_tests!(fresh().await);
