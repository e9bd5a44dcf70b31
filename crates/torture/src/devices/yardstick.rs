//! How busy the machine is: while a single read takes long, nobody can be expected to look after runs in time.

use std::time::Duration;

use super::record::{Record, now};

const PAUSE: Duration = Duration::from_millis(200);
/// A read that takes longer says that the machine has no time for anybody, in milliseconds.
const LONG: i64 = 500;

/// Writes down every time that a read was answered and took long.
pub(super) async fn measure(door: String, record: Record) {
    let client = millstream_testkit::Client::new(&door);
    loop {
        let sent = now();
        let answer = client.request(reqwest::Method::GET, "/v1/runs?limit=1").send().await;
        let answered = now();
        if answer.is_ok() && answered - sent > LONG {
            record.write().outages.push((sent, answered));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
