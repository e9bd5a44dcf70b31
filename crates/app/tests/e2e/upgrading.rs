//! Two releases on one database: the older one works beside the newer one until the upgrade is finished, and
//! not after.
//!
//! Both are this binary; some of its processes claim to be a newer release.

use millstream_testkit::fleet::FleetEnv;
use millstream_testkit::{TestFleet, eventually};
use serde_json::json;

use crate::definitions::COUNTER;
use crate::world::{FLEET, SOON, start_world};

const OLDER: FleetEnv<'static> = &[];
const NEWER: FleetEnv<'static> = &[("MILLSTREAM_RELEASE", "99.1.0")];

/// What a migration that the older release does not know leaves behind.
const NEWER_MIGRATION: &str = "
INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
VALUES (9999, 'newer', true, '\\x00', 0)";

async fn stop_workers(fleet: &mut TestFleet, workers: &[usize]) {
    for worker in workers {
        fleet.stop_worker(*worker).await;
    }
}

fn run_migrate(fleet: &TestFleet, release: FleetEnv<'_>, flag: &str) -> std::process::Output {
    fleet.command(release).args(["migrate", flag]).output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_release_works_until_upgrade_finishes() {
    // An ingress and two workers of the older release.
    let mut world = start_world(FLEET).await;
    let (fleet, api) = (&mut world.fleet, &world.api);
    api.apply(COUNTER).await;
    api.start_with_events("counter", "c-1", json!({}), &[]).await;

    // The newer release migrates and works beside them; then only an older one is left, as after a rollback.
    fleet.execute_sql(NEWER_MIGRATION).await;
    let newer = fleet.start_worker(NEWER);
    let older = fleet.start_worker(OLDER);
    stop_workers(fleet, &[0, 1]).await;
    let applied = api.send_and_settle("c-1", "add", json!({ "i": 0 })).await;
    assert_eq!(applied["status"], "completed", "{applied}");
    stop_workers(fleet, &[newer]).await;
    let applied = api.send_and_settle("c-1", "add", json!({ "i": 1 })).await;
    assert_eq!(applied["status"], "completed", "{applied}");
    let output = fleet.worker(older).output_text();
    assert!(output.contains("a newer release has migrated this database"), "{output}");
    assert!(output.contains("9999"), "{output}");
    let checked = run_migrate(fleet, OLDER, "--check");
    assert!(checked.status.success(), "{checked:?}");

    // Finished: the older release is refused with advice.
    let finished = run_migrate(fleet, NEWER, "--finish");
    assert!(finished.status.success(), "{finished:?}");
    let refused = fleet.start_worker(OLDER);
    let status = fleet.worker(refused).wait_for_exit(SOON).await;
    let output = fleet.worker(refused).output_text();
    assert!(!status.success(), "{output}");
    assert!(output.contains("start 99.1.0 or newer, or restore a backup from before"), "{output}");
    for flag in ["--check", "--finish"] {
        let refused = run_migrate(fleet, OLDER, flag);
        assert!(!refused.status.success(), "{flag}: {refused:?}");
    }

    // The newer one continues where the older one stopped.
    stop_workers(fleet, &[older]).await;
    fleet.start_worker(NEWER);
    let applied = api.send_and_settle("c-1", "add", json!({ "i": 2 })).await;
    assert_eq!(applied["status"], "completed", "{applied}");
    eventually(SOON, || async {
        let counted = api.execution("c-1").await["context"]["n"].clone();
        if counted == 3 { Ok(()) } else { Err(counted) }
    })
    .await;
}
