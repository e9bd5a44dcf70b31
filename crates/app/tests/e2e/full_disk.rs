//! A full disk: nothing is accepted, readiness fails, and both recover when there is room.
//!
//! The process may not write a file beyond a size limit, which looks like a full file system and needs no
//! rights: `prlimit` sets and lifts it while the process runs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream_testkit::{TestClient, TestFleet, eventually};
use serde_json::json;

use crate::api::E2eApi;
use crate::definitions::COUNTER;
use crate::world::{EMBEDDED, SOON};

/// The binary, started so that a write beyond the limit fails instead of killing it.
fn binary_that_survives_full_disks(directory: &Path) -> PathBuf {
    let path = directory.join("millstream");
    let script = format!("#!/bin/sh\ntrap '' XFSZ\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_millstream"));
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// How large a file may become; the hard limit stays, so that it can be lifted again.
fn limit_files(pid: u32, bytes: &str) {
    let set =
        Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:")]).output();
    let set = set.expect("prlimit of util-linux");
    assert!(set.status.success(), "{set:?}");
}

async fn readiness_status(client: &TestClient) -> u16 {
    client.get("/readyz").await.status
}

async fn until_readiness(api: &E2eApi, expected: u16) {
    eventually(SOON, || async {
        // Readiness depends on the outcome of events.
        let posted = api.post_event("c-1", "add", json!({ "i": 0 })).await.status;
        match readiness_status(&api.client).await {
            found if found == expected => Ok(()),
            found => Err(format!("readiness {found}, a post {posted}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_fails_readiness() {
    let directory = tempfile::tempdir().unwrap();
    let binary = binary_that_survives_full_disks(directory.path());
    let mut fleet = TestFleet::start(EMBEDDED, binary, &[("MILLSTREAM_LOG_FORMAT", "text")]).await;
    let api = E2eApi::new(fleet.client());
    api.apply(COUNTER).await;
    api.start_with_events("counter", "c-1", json!({}), &[]).await;
    until_readiness(&api, 200).await;

    let pid = fleet.ingress().pid();
    limit_files(pid, "1");
    until_readiness(&api, 503).await;
    let refused = api.post_event("c-1", "add", json!({ "i": 1 })).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(api.client.get("/healthz").await.status, 200, "the process itself is well");

    limit_files(pid, "unlimited");
    until_readiness(&api, 200).await;
    // Recovery needs no restart, and accepted events are decided.
    let applied = api.send_and_settle("c-1", "add", json!({ "i": 2 })).await;
    assert_eq!(applied["status"], "completed", "{applied}");
    assert_eq!(fleet.ingress().exit_status(), None);
}
