//! Load probe: while a single read takes long, the machine is too busy to monitor runs in time.

use std::time::Duration;

use super::record::{Record, now};

const PAUSE: Duration = Duration::from_millis(200);
/// A slower read means that the machine is overloaded, in milliseconds.
const LONG: i64 = 500;

/// Records every period in which a successful read was slow.
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
