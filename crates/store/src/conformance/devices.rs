//! Devices: registration, heartbeats, pauses.

use millstream_core::claim::{Candidate, Device, Doing};
use millstream_core::status::PauseState;

use super::Bench;
use super::device_fixture::{act, assign, device, device_of, new_device, run_key, run_of, spec};
use super::fixture::{HOUR, name, tenant};

pub async fn a_device_is_known_by_its_last_word(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let first = new_device("d1");
    store.beat_devices(&[(tenant("acme"), first.clone())], now.minus(HOUR)).await.unwrap();
    let known = store.devices(&[device_of("acme", "d1"), device_of("acme", "d2")]).await.unwrap();
    let seen = Device { seen_at: now.minus(HOUR), ..first.clone() };
    assert_eq!(known, [Some(Candidate { device: seen, open: 0 }), None]);
    let changed = Device {
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
    store.beat_devices(&beats, now).await.unwrap();
    let known = store.devices(&[device_of("acme", "d1")]).await.unwrap().remove(0).unwrap();
    assert_eq!(known.device, Device { seen_at: now, ..changed }, "the last report of a batch counts too");
    store.beat_devices(&[], now).await.unwrap();
}

pub async fn a_pause_is_a_persons_word_and_outlives_beats(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let claims_to_be = Device { paused: true, ..new_device("d1") };
    store.beat_devices(&[(tenant("acme"), claims_to_be)], now).await.unwrap();
    let keys = [device_of("acme", "d1"), device_of("acme", "missing")];
    let paused = async || store.devices(&keys).await.unwrap()[0].as_ref().unwrap().device.paused;
    assert!(!paused().await, "a heartbeat does not change the pause");
    assert_eq!(store.pause_devices(&keys, PauseState::Paused).await.unwrap(), [true, false]);
    store.beat_devices(&[(tenant("acme"), new_device("d1"))], now).await.unwrap();
    assert!(paused().await);
    assert_eq!(store.pause_devices(&keys, PauseState::Running).await.unwrap(), [true, false]);
    assert!(!paused().await);
}

pub async fn a_roster_comes_by_id_in_pages_with_its_seats_counted(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let beats = ["d2", "B", "d1-x", "d1"].map(|id| (tenant("acme"), new_device(id)));
    store.beat_devices(&beats, now).await.unwrap();
    let accepts = [assign("d1"), act("d1", 1, Doing::Accept)];
    bench.run_after(&run_key("asked"), spec(), &accepts[..1]).await;
    bench.run_after(&run_key("claimed"), spec(), &accepts).await;
    let declines = act("d1", 1, Doing::Decline { reason: None });
    bench.run_after(&run_key("declined"), spec(), &[assign("d1"), declines]).await;
    bench.run_after(&run_of("other", "asked"), spec(), &accepts[..1]).await;
    let roster = async |after: Option<&str>, limit| {
        let after = after.map(device);
        let page = store.roster(&tenant("acme"), after.as_ref(), limit).await.unwrap();
        page.into_iter().map(|one| (one.device.id.to_string(), one.open)).collect::<Vec<_>>()
    };
    let counted = |id: &str, open| (id.to_owned(), open);
    let all = [counted("B", 0), counted("d1", 2), counted("d1-x", 0), counted("d2", 0)];
    assert_eq!(roster(None, usize::MAX).await, all);
    assert_eq!(roster(None, 2).await, all[..2]);
    assert_eq!(roster(Some("d1"), 9).await, all[2..]);
    let one = store.devices(&[device_of("acme", "d1")]).await.unwrap().remove(0).unwrap();
    assert_eq!(one.open, 2);
}

pub async fn devices_of_tenants_do_not_meet(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    let beats = ["acme", "other"].map(|owner| (tenant(owner), new_device("d1")));
    store.beat_devices(&beats, now).await.unwrap();
    store.pause_devices(&[device_of("other", "d1")], PauseState::Paused).await.unwrap();
    let roster = store.roster(&tenant("acme"), None, 9).await.unwrap();
    assert!(roster.len() == 1 && !roster[0].device.paused);
    store.remove_devices(&[device_of("acme", "d1")]).await.unwrap();
    assert_eq!(store.roster(&tenant("other"), None, 9).await.unwrap().len(), 1);
}

pub async fn a_removed_device_is_gone(bench: Bench) {
    let now = bench.now().await;
    let store = &bench.stores.devices;
    store.beat_devices(&[(tenant("acme"), new_device("d1"))], now).await.unwrap();
    let keys = [device_of("acme", "d1"), device_of("acme", "d2")];
    assert_eq!(store.remove_devices(&keys).await.unwrap(), [true, false]);
    assert_eq!(store.devices(&keys).await.unwrap(), [None, None]);
    assert_eq!(store.roster(&tenant("acme"), None, 9).await.unwrap(), []);
}
