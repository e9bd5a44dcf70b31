//! Devices: registration, heartbeats, pauses.

use millstream_devices::claim::{DeviceAction, DeviceCandidate, DeviceReport};
use millstream_model::status::PauseState;

use crate::ConformanceBench;
use crate::device_fixture::{act, assign, device, device_of, new_device, run_key, run_of, spec};
use crate::fixture::{HOUR, name, tenant};

pub async fn last_device_heartbeat_counts(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let first = new_device("d1");
    store.record_device_heartbeats(&[(tenant("acme"), first.clone())], now.minus(HOUR)).await.unwrap();
    let known = store.find_devices(&[device_of("acme", "d1"), device_of("acme", "d2")]).await.unwrap();
    let seen = DeviceReport { seen_at: now.minus(HOUR), ..first.clone() };
    assert_eq!(known, [Some(DeviceCandidate { device: seen, open: 0 }), None]);
    let changed = DeviceReport {
        capabilities: [name("av1")].into(),
        capability: u32::MAX,
        capacity: None,
        load: 1.0,
        quality: 0.0,
        battery: None,
        on_battery: false,
        coordinates: false,
        ..first.clone()
    };
    let beats = [(tenant("acme"), first), (tenant("acme"), changed.clone())];
    store.record_device_heartbeats(&beats, now).await.unwrap();
    let known = store.find_devices(&[device_of("acme", "d1")]).await.unwrap().remove(0).unwrap();
    assert_eq!(
        known.device,
        DeviceReport { seen_at: now, ..changed },
        "the last report of a batch counts too"
    );
    store.record_device_heartbeats(&[], now).await.unwrap();
}

pub async fn device_pause_outlives_heartbeats(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let claims_to_be = DeviceReport { paused: true, ..new_device("d1") };
    store.record_device_heartbeats(&[(tenant("acme"), claims_to_be)], now).await.unwrap();
    let keys = [device_of("acme", "d1"), device_of("acme", "missing")];
    let paused = async || store.find_devices(&keys).await.unwrap()[0].as_ref().unwrap().device.paused;
    assert!(!paused().await, "a heartbeat does not change the pause");
    assert_eq!(store.pause_devices(&keys, PauseState::Paused).await.unwrap(), [true, false]);
    store.record_device_heartbeats(&[(tenant("acme"), new_device("d1"))], now).await.unwrap();
    assert!(paused().await);
    assert_eq!(store.pause_devices(&keys, PauseState::Running).await.unwrap(), [true, false]);
    assert!(!paused().await);
}

pub async fn roster_pages_by_id_with_seat_counts(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let beats = ["d2", "B", "d1-x", "d1"].map(|id| (tenant("acme"), new_device(id)));
    store.record_device_heartbeats(&beats, now).await.unwrap();
    let accepts = [assign("d1"), act("d1", 1, DeviceAction::Accept)];
    bench.run_after(&run_key("asked"), spec(), &accepts[..1]).await;
    bench.run_after(&run_key("claimed"), spec(), &accepts).await;
    let declines = act("d1", 1, DeviceAction::Decline { reason: None });
    bench.run_after(&run_key("declined"), spec(), &[assign("d1"), declines]).await;
    bench.run_after(&run_of("other", "asked"), spec(), &accepts[..1]).await;
    let roster = async |after: Option<&str>, limit| {
        let after = after.map(device);
        let page = store.read_roster(&tenant("acme"), after.as_ref(), limit).await.unwrap();
        page.into_iter().map(|one| (one.device.id.to_string(), one.open)).collect::<Vec<_>>()
    };
    let counted = |id: &str, open| (id.to_owned(), open);
    let all = [counted("B", 0), counted("d1", 2), counted("d1-x", 0), counted("d2", 0)];
    assert_eq!(roster(None, usize::MAX).await, all);
    assert_eq!(roster(None, 2).await, all[..2]);
    assert_eq!(roster(Some("d1"), 9).await, all[2..]);
    let one = store.find_devices(&[device_of("acme", "d1")]).await.unwrap().remove(0).unwrap();
    assert_eq!(one.open, 2);
}

pub async fn tenants_have_separate_devices(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let beats = ["acme", "other"].map(|owner| (tenant(owner), new_device("d1")));
    store.record_device_heartbeats(&beats, now).await.unwrap();
    store.pause_devices(&[device_of("other", "d1")], PauseState::Paused).await.unwrap();
    let roster = store.read_roster(&tenant("acme"), None, 9).await.unwrap();
    assert!(roster.len() == 1 && !roster[0].device.paused);
    store.remove_devices(&[device_of("acme", "d1")]).await.unwrap();
    assert_eq!(store.read_roster(&tenant("other"), None, 9).await.unwrap().len(), 1);
}

pub async fn removed_device_is_gone(bench: ConformanceBench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    store.record_device_heartbeats(&[(tenant("acme"), new_device("d1"))], now).await.unwrap();
    let keys = [device_of("acme", "d1"), device_of("acme", "d2")];
    assert_eq!(store.remove_devices(&keys).await.unwrap(), [true, false]);
    assert_eq!(store.find_devices(&keys).await.unwrap(), [None, None]);
    assert_eq!(store.read_roster(&tenant("acme"), None, 9).await.unwrap(), []);
}
