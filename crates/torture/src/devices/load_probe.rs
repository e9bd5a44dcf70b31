//! Load probe: while a single read takes long, the machine is too busy to monitor runs in time.

use std::time::Duration;

use super::record::{DeviceRecord, unix_millis};

const PAUSE: Duration = Duration::from_millis(200);
/// A slower read means that the machine is overloaded, in milliseconds.
const LONG: i64 = 500;

/// Records every period in which a successful read was slow.
pub(super) async fn measure_load(door: String, record: DeviceRecord) {
    let client = millstream_testkit::TestClient::new(&door);
    loop {
        let sent = unix_millis();
        let answer = client.request(reqwest::Method::GET, "/v1/runs?limit=1").send().await;
        let answered = unix_millis();
        if answer.is_ok() && answered - sent > LONG {
            record.lock_state().outages.push((sent, answered));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
