//! Views of runs.

use millstream_devices::claim::{DeviceAction, RunInput, RunSpec, SeatStatus, SeatToken, WaitingAction};
use millstream_model::id::{ActionKey, Epoch, Seq};
use millstream_model::time::Timestamp;
use millstream_store::run_store::{FleetCounts, RunFilter, StoredRun};

use crate::ConformanceBench;
use crate::device_fixture::{act, assign, device, device_of, new_device, run_key, run_of, self_claim, spec};
use crate::fixture::{HOUR, execution, name, tenant};

fn ids(rows: &[StoredRun]) -> Vec<&str> {
    rows.iter().map(|row| row.key.run.as_str()).collect()
}

pub async fn runs_are_listed_newest_first(bench: ConformanceBench) {
    for id in ["z", "a", "m"] {
        bench.run_after(&run_key(id), spec(), &[]).await;
    }
    bench.step_run(&run_key("z"), &self_claim("d1")).await;
    let views = &bench.stores.run_views;
    let all = views.list_runs(&tenant("acme"), &RunFilter::default(), None, 9).await.unwrap();
    assert_eq!(ids(&all), ["m", "a", "z"], "a change does not move it");
    assert_eq!(all[2], bench.run(&run_key("z")).await);
    let first = views.list_runs(&tenant("acme"), &RunFilter::default(), None, 2).await.unwrap();
    let after = Some(first[1].position);
    let rest = views.list_runs(&tenant("acme"), &RunFilter::default(), after, 2).await.unwrap();
    assert_eq!((ids(&first), ids(&rest)), (vec!["m", "a"], vec!["z"]));
}

pub async fn runs_filter_by_status_kind_execution(bench: ConformanceBench) {
    let waiting = |id: &str| {
        let key = ActionKey { execution: execution(id), seq: Seq(2), action: name("render") };
        Some(WaitingAction { key, epoch: Epoch(1), event_id: bench.event_id() })
    };
    let claim = [self_claim("d1")];
    bench.run_after(&run_key("r1"), RunSpec { waiting: waiting("e1"), ..spec() }, &claim).await;
    bench.run_after(&run_key("r2"), RunSpec { kind: name("print"), ..spec() }, &claim).await;
    bench.run_after(&run_key("r3"), RunSpec { waiting: waiting("e2"), ..spec() }, &[]).await;
    bench.run_after(&run_key("r4"), RunSpec { waiting: waiting("e1"), ..spec() }, &[]).await;
    bench.run_after(&run_of("other", "r5"), RunSpec { waiting: waiting("e1"), ..spec() }, &claim).await;
    let found = async |filter: RunFilter| {
        let rows = bench.stores.run_views.list_runs(&tenant("acme"), &filter, None, 9).await.unwrap();
        ids(&rows).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (claimed, created) = (Some(SeatStatus::Claimed), Some(SeatStatus::Created));
    assert_eq!(found(RunFilter { status: claimed, ..RunFilter::default() }).await, ["r2", "r1"]);
    let print = Some(name("print"));
    assert_eq!(found(RunFilter { kind: print.clone(), ..RunFilter::default() }).await, ["r2"]);
    let of_e1 = RunFilter { execution: Some(execution("e1").execution), ..RunFilter::default() };
    assert_eq!(found(of_e1.clone()).await, ["r4", "r1"]);
    assert_eq!(found(RunFilter { status: created, ..of_e1.clone() }).await, ["r4"]);
    assert_eq!(found(RunFilter { kind: print.clone(), ..of_e1 }).await, Vec::<String>::new());
    assert_eq!(found(RunFilter { status: claimed, kind: print, ..RunFilter::default() }).await, ["r2"]);
}

pub async fn device_seats_order_by_priority_then_age(bench: ConformanceBench) {
    let now = bench.now().await;
    let put = async |id: &str, priority: i32, at: Timestamp, inputs: &[RunInput]| {
        bench.run_at(&run_key(id), RunSpec { priority, ..spec() }, inputs, at).await;
    };
    let (asked, claimed) = ([assign("d1")], [assign("d1"), act("d1", 1, DeviceAction::Accept)]);
    put("young", 1, now, &asked).await;
    put("old", 1, now.minus(HOUR), &claimed).await;
    put("urgent", 9, now, &claimed).await;
    put("humble", -9, now.minus(HOUR), &claimed).await;
    put("other", 5, now, &[assign("d2")]).await;
    put("lost", 9, now, &[assign("d1"), act("d1", 1, DeviceAction::Decline { reason: None })]).await;
    bench.run_after(&run_of("other", "theirs"), spec(), &asked).await;
    let devices = [device_of("acme", "d2"), device_of("acme", "d1"), device_of("acme", "d3")];
    let seats = bench.stores.run_views.seats_of(&devices, 9).await.unwrap();
    let order: Vec<&str> = seats[1].iter().map(|seat| seat.run.run.as_str()).collect();
    assert_eq!(order, ["urgent", "old", "young", "humble"]);
    assert_eq!((seats[0].len(), seats[2].len()), (1, 0));
    let old = &seats[1][1];
    assert_eq!((old.seat, &old.device, old.token), (0, &device("d1"), SeatToken(1)));
    assert_eq!((old.status, old.priority, old.assigned_at), (SeatStatus::Claimed, 1, now.minus(HOUR)));
    let few = bench.stores.run_views.seats_of(&devices, 2).await.unwrap();
    assert_eq!((few[0].len(), &few[1][..]), (1, &seats[1][..2]));
}

pub async fn run_log_is_paged_in_order(bench: ConformanceBench) {
    let key = run_key("r1");
    bench.run_after(&key, spec(), &[]).await;
    bench.step_run(&key, &assign("d1")).await;
    bench.run_after(&run_key("r2"), spec(), &[]).await;
    bench
        .step_run(&key, &act("d1", 1, DeviceAction::Decline { reason: Some("busy\u{1f600}".to_owned()) }))
        .await;
    let views = &bench.stores.run_views;
    let all = views.run_log(&key, 0, 9).await.unwrap();
    let words: Vec<&str> = all.iter().map(|one| one.entry.word.as_str()).collect();
    assert_eq!(words, ["create", "assign", "recorded", "decline"]);
    let last = &all[3].entry;
    assert_eq!((last.why.as_deref(), last.token), (Some("busy\u{1f600}"), Some(SeatToken(1))));
    let told = millstream_devices::claim::replay_seats(all.iter().map(|one| &one.entry));
    assert_eq!(told, millstream_devices::claim::outline_seats(&bench.run(&key).await.run));
    let first = views.run_log(&key, 0, 2).await.unwrap();
    let rest = views.run_log(&key, first[1].position, 9).await.unwrap();
    assert_eq!([first, rest].concat(), all);
    assert_eq!(views.run_log_end(&key, 2).await.unwrap(), all[2..]);
    assert_eq!(views.run_log_end(&key, 9).await.unwrap(), all);
}

pub async fn fleet_count_covers_devices_and_seats(bench: ConformanceBench) {
    let now = bench.now().await;
    let views = &bench.stores.run_views;
    assert_eq!(views.count_fleet(now).await.unwrap(), FleetCounts::default());
    let earlier = now.minus(HOUR);
    let beat = async |id: &str, at| {
        bench.stores.devices.record_device_heartbeats(&[(tenant("acme"), new_device(id))], at).await
    };
    beat("d1", earlier).await.unwrap();
    beat("d2", now).await.unwrap();
    bench.run_after(&run_key("claimed"), spec(), &[self_claim("d2")]).await;
    bench.run_after(&run_of("other", "claimed"), spec(), &[self_claim("d1")]).await;
    bench.run_after(&run_key("waits"), spec(), &[]).await;
    let cancelled = [self_claim("d2"), RunInput::Cancel { reason: None }];
    bench.run_after(&run_key("ended"), spec(), &cancelled).await;
    let counts = views.count_fleet(now).await.unwrap();
    assert_eq!((counts.devices, counts.heard), (2, 1));
    let seats: Vec<(SeatStatus, u64)> = counts.seats.into_iter().collect();
    assert_eq!(seats, [(SeatStatus::Created, 1), (SeatStatus::Claimed, 2)]);
}
