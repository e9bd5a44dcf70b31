//! Starts the engine for a case, with timeouts short enough to observe repairs.

use std::time::Duration;

use millstream_testkit::fleet::{FleetEnv, FleetPostgres};
use millstream_testkit::{FleetMode, TestFleet};

use crate::api::E2eApi;

pub(crate) const EMBEDDED: FleetMode = FleetMode::Embedded;
pub(crate) const FLEET: FleetMode = FleetMode::Fleet { workers: 2 };

/// Deadline of every expected effect on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Shorter than in production and in the same proportions.
const IMPATIENT: FleetEnv<'static> = &[
    ("MILLSTREAM_WORKER__LEASE", "2s"),
    ("MILLSTREAM_WORKER__LOCK_TTL", "1500ms"),
    ("MILLSTREAM_WORKER__RECLAIM_IDLE", "2s"),
    ("MILLSTREAM_WORKER__OVERDUE", "1s"),
    ("MILLSTREAM_LOG_FORMAT", "text"),
];

pub(crate) struct E2eWorld {
    pub(crate) fleet: TestFleet,
    pub(crate) api: E2eApi,
}

pub(crate) async fn start_world(mode: FleetMode) -> E2eWorld {
    start_with(mode, &[]).await
}

pub(crate) async fn start_with(mode: FleetMode, env: FleetEnv<'_>) -> E2eWorld {
    start_on(mode, FleetPostgres::Shared, env).await
}

pub(crate) async fn start_on(mode: FleetMode, postgres: FleetPostgres, env: FleetEnv<'_>) -> E2eWorld {
    let env = [IMPATIENT, env].concat();
    let fleet = TestFleet::start_on(mode, postgres, env!("CARGO_BIN_EXE_millstream"), &env).await;
    let api = E2eApi::new(fleet.client());
    E2eWorld { fleet, api }
}
