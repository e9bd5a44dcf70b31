//! Starts the engine for a case, with timeouts short enough to observe repairs.

use std::time::Duration;

use millstream_testkit::fleet::{Env, Postgres};
use millstream_testkit::{Fleet, Mode};

use crate::api::Api;

pub(crate) const EMBEDDED: Mode = Mode::Embedded;
pub(crate) const FLEET: Mode = Mode::Fleet { workers: 2 };

/// Deadline of every expected effect on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Shorter than in production and in the same proportions.
const IMPATIENT: Env<'static> = &[
    ("MILLSTREAM_WORKER__LEASE", "2s"),
    ("MILLSTREAM_WORKER__LOCK_TTL", "1500ms"),
    ("MILLSTREAM_WORKER__RECLAIM_IDLE", "2s"),
    ("MILLSTREAM_WORKER__OVERDUE", "1s"),
    ("MILLSTREAM_LOG_FORMAT", "text"),
];

pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) api: Api,
}

pub(crate) async fn start(mode: Mode) -> World {
    start_with(mode, &[]).await
}

pub(crate) async fn start_with(mode: Mode, env: Env<'_>) -> World {
    start_on(mode, Postgres::Shared, env).await
}

pub(crate) async fn start_on(mode: Mode, postgres: Postgres, env: Env<'_>) -> World {
    let env = [IMPATIENT, env].concat();
    let fleet = Fleet::start_on(mode, postgres, env!("CARGO_BIN_EXE_millstream"), &env).await;
    let api = Api::new(fleet.client());
    World { fleet, api }
}
