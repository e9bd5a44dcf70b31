//! Work on a run grows neither with the number of runs nor with that of devices, whatever the statistics say.

use millstream_devices::claim::{
    DeviceAction, DeviceReport, RunInput, RunSpec, RunStepOutcome, SeatAct, SeatStatus, SeatToken,
    SelectionWeights, create_run, place_run, step_run,
};
use millstream_model::id::{DeviceId, DeviceKey, Name, RunId, RunKey, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::device_store::DeviceStore;
use millstream_store::housekeeping::Housekeeping;
use millstream_store::run_store::{
    ExpectedVersion, RunFilter, RunStore, RunUnit, RunVerdict, RunViews, RunWrite, SeatHeartbeat, SeatPulse,
};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

use crate::support::{PostgresFixture, raw, rows_read};

const RUNS: usize = 4_000;
const DEVICES: usize = 40;

fn tenant() -> TenantId {
    TenantId::parse("acme").unwrap()
}

fn device(number: usize) -> DeviceReport {
    DeviceReport::with_defaults(DeviceId::parse(format!("d{number}")).unwrap(), Timestamp::EPOCH)
}

fn key(number: usize) -> RunKey {
    RunKey { tenant: tenant(), run: RunId::parse(format!("r{number}")).unwrap() }
}

/// Assigned to one device after the other; all but a few have ended.
fn unit(number: usize, roster: &[millstream_devices::claim::DeviceCandidate], now: Timestamp) -> RunUnit {
    let spec = RunSpec::with_defaults(Name::parse("render").unwrap(), raw("{}"));
    let turn = u64::try_from(number).unwrap();
    let weights = SelectionWeights { rank: 0.0, ..SelectionWeights::default() };
    let mut change = place_run(
        create_run(spec, None, now),
        &mut roster.iter().cloned().collect(),
        &weights,
        turn,
        None,
        now,
    );
    if number >= 400 {
        let cancel = step_run(change.run.clone(), &RunInput::Cancel { reason: None }, None, now);
        change = change.merge_next(cancel.unwrap());
    }
    RunWrite {
        key: key(number),
        expected: ExpectedVersion::Nothing,
        run: change.run,
        log: change.log,
        unheard: Vec::new(),
        settlement: None,
    }
    .into()
}

#[tokio::test]
async fn run_work_reads_only_that_run() {
    let fixture = PostgresFixture::fresh().await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    for table in ["runs", "run_seats", "run_log", "devices"] {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        sqlx::raw_sql(sqlx::AssertSqlSafe(off)).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let now = fixture.store.ping().await.unwrap();
    let beats: Vec<_> = (0..DEVICES).map(|number| (tenant(), device(number))).collect();
    fixture.store.record_device_heartbeats(&beats, now).await.unwrap();
    let roster = fixture.store.read_roster(&tenant(), None, usize::MAX).await.unwrap();
    let units: Vec<RunUnit> = (0..RUNS).map(|number| unit(number, &roster, now)).collect();
    for batch in units.chunks(500) {
        fixture.store.commit_runs(batch, now).await.unwrap();
    }
    fixture.store.close().await;

    let before = rows_read(&fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    for number in 0..20 {
        let mut held = None;
        for doing in [DeviceAction::Accept, DeviceAction::Start] {
            let seen = store.load_runs(&[key(number)]).await.unwrap().remove(0).unwrap();
            let holding = seen.run.seats[0].current_holding().unwrap().clone();
            let act = SeatAct { device: holding.device.clone(), seat: 0, token: SeatToken(1) };
            let stepped = step_run(seen.run.clone(), &RunInput::Act(act, doing), None, now).unwrap();
            let RunStepOutcome::Changed(change) = stepped else { panic!("{stepped:?}") };
            let write = RunWrite {
                key: seen.key.clone(),
                expected: ExpectedVersion::Version(seen.version),
                run: change.run,
                log: change.log,
                unheard: Vec::new(),
                settlement: None,
            };
            let committed = store.commit_runs(&[write.into()], now).await.unwrap();
            assert!(matches!(committed.verdicts[..], [RunVerdict::Done { .. }]));
            held = Some(holding);
        }
        let device = held.unwrap().device;
        let beat = SeatHeartbeat {
            run: key(number),
            seat: 0,
            device: device.clone(),
            token: SeatToken(1),
            progress: None,
        };
        let pulses = store.record_seat_heartbeats(&[beat], now).await.unwrap();
        assert!(matches!(pulses[..], [SeatPulse::Held { .. }]));
        let of = DeviceKey { tenant: tenant(), device };
        assert_eq!(store.seats_of(std::slice::from_ref(&of), 3).await.unwrap()[0].len(), 3);
        assert_eq!(store.find_devices(&[of]).await.unwrap()[0].as_ref().unwrap().open, 10);
        assert!(store.run_log(&key(number), 0, 9).await.unwrap().len() >= 5);
        assert_eq!(store.due_runs(now, 5).await.unwrap(), []);
        let open = RunFilter { status: Some(SeatStatus::Processing), ..RunFilter::default() };
        assert!(!store.list_runs(&tenant(), &open, None, 5).await.unwrap().is_empty());
        let kind = RunFilter { kind: Some(Name::parse("render").unwrap()), ..RunFilter::default() };
        assert_eq!(store.list_runs(&tenant(), &kind, None, 5).await.unwrap().len(), 5);
        assert_eq!(store.list_runs(&tenant(), &RunFilter::default(), None, 5).await.unwrap().len(), 5);
    }
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 20 * 200, "20 runs were worked on and {read} rows read, of {RUNS}");
}
