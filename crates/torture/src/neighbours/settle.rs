//! After the last attack: waits until no event waits to be decided, and holds counters, rows and waits against the
//! promises.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::attacks::AttackLedger;
use super::check::NeighbourFinding;
use super::engine::{FleetUnderTest, HONEST, HOSTILE};
use super::rows::{self, FleetRows};
use super::settled::{
    PostedEvents, UsedQuota, check_lanes, check_posted, check_room, check_usage, check_waits, longest_wait,
};

/// Within so long of quiet, counters equal rows.
const COUNTERS: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(250);
/// How many executions the tenant may start at the end.
const ROOM: u64 = 5;
/// `worker.overdue` of the default settings.
const OVERDUE: Duration = Duration::from_secs(10);
const TENANTS: [&str; 2] = [HONEST, HOSTILE];

/// Everything that is wrong, at most `patience` after the attacks.
pub(super) async fn verify_settled(
    fleet: &FleetUnderTest,
    ledger: &AttackLedger,
    patience: Duration,
) -> Vec<NeighbourFinding> {
    // A definition that starts itself would never be quiet.
    fleet.enforce_hostile_quota(json!({ "child_depth": 1 })).await;
    let mut rows = fleet.rows().await;
    let mut posted =
        PostedEvents { accepted: ledger.accepted(), in_doubt: ledger.in_doubt(), ..PostedEvents::default() };
    let until = Instant::now() + patience;
    loop {
        posted.rows = rows.posted(HOSTILE).await;
        posted.undecided = rows.undecided(HOSTILE).await + rows.undecided(HONEST).await;
        if posted.undecided == 0 || Instant::now() > until {
            break;
        }
        tokio::time::sleep(GLANCE).await;
    }
    let mut findings = check_posted(&posted);
    findings.extend(counters(fleet, &mut rows).await);
    for tenant in TENANTS {
        let longest = longest_wait(&rows.event_times(tenant).await);
        findings.extend(check_waits(tenant, longest, OVERDUE));
    }
    // By now the count by which starts are admitted may have been taken before the last child was started.
    tokio::time::sleep(COUNTERS).await;
    findings.extend(room(fleet, &mut rows).await);
    findings
}

/// Looks until everything agrees, at most for the time in which it has to.
async fn counters(fleet: &FleetUnderTest, rows: &mut FleetRows) -> Vec<NeighbourFinding> {
    let until = Instant::now() + COUNTERS;
    loop {
        let mut findings = match rows::read_lanes(&mut fleet.redis().await).await {
            Ok(lanes) => check_lanes(&lanes),
            Err(error) => vec![NeighbourFinding::of("Redis", error.to_string())],
        };
        for tenant in TENANTS {
            let told = fleet.usage(tenant).await;
            findings.extend(check_usage(tenant, &told, &rows.used(tenant).await));
        }
        if findings.is_empty() || Instant::now() > until {
            return findings;
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// The count by which starts are admitted equals the rows as well: as many are admitted as rows leave room for.
async fn room(fleet: &FleetUnderTest, rows: &mut FleetRows) -> Option<NeighbourFinding> {
    let open = rows.used(HOSTILE).await["open_executions"];
    fleet.enforce_hostile_quota(json!({ "child_depth": 1, "open_executions": open + ROOM })).await;
    let mut admitted = 0;
    let start = |number: u64| json!({ "definition": "noisy", "execution_id": format!("room-{number}") });
    while admitted <= ROOM && fleet.hostile.post("/v1/executions", &start(admitted)).await.status == 201 {
        admitted += 1;
    }
    check_room(ROOM, admitted)
}

/// By the name of the quota, of what is counted by rows.
pub(super) fn usage_by_name(usage: &Value) -> BTreeMap<String, UsedQuota> {
    let items = usage["items"].as_array().into_iter().flatten();
    let used = |item: &Value| Some(UsedQuota { used: item["used"].as_u64()?, quota: item["quota"].as_u64() });
    let stored = items.filter(|item| item["scope"] == "store");
    stored.filter_map(|item| Some((item["name"].as_str()?.to_owned(), used(item)?))).collect()
}
