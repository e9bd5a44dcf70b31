//! After the last attack: waits until no event is undecided, and checks counters, rows and waits against the
//! guarantees.

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

/// Counters equal rows within this time of quiet.
const COUNTERS: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(250);
/// Number of executions that the tenant may start at the end.
const ROOM: u64 = 5;
/// `worker.overdue` of the default settings.
const OVERDUE: Duration = Duration::from_secs(10);
const TENANTS: [&str; 2] = [HONEST, HOSTILE];

/// All violations, at most `patience` after the attacks.
pub(super) async fn verify_settled(
    fleet: &FleetUnderTest,
    ledger: &AttackLedger,
    patience: Duration,
) -> Vec<NeighbourFinding> {
    // A definition that starts itself would never become quiet.
    fleet.enforce_hostile_quota(json!({ "child_depth": 1 })).await;
    let mut rows = fleet.fleet_rows().await;
    let mut posted =
        PostedEvents { accepted: ledger.accepted(), in_doubt: ledger.in_doubt(), ..PostedEvents::default() };
    let until = Instant::now() + patience;
    loop {
        posted.rows = rows.posted_events(HOSTILE).await;
        posted.undecided = rows.undecided_events(HOSTILE).await + rows.undecided_events(HONEST).await;
        if posted.undecided == 0 || Instant::now() > until {
            break;
        }
        tokio::time::sleep(GLANCE).await;
    }
    let mut findings = check_posted(&posted);
    findings.extend(check_counters(fleet, &mut rows).await);
    for tenant in TENANTS {
        let longest = longest_wait(&rows.event_times(tenant).await);
        findings.extend(check_waits(tenant, longest, OVERDUE));
    }
    // The count for the admission of starts may date from before the last child was started.
    tokio::time::sleep(COUNTERS).await;
    findings.extend(check_admission_room(fleet, &mut rows).await);
    findings
}

/// Polls until everything agrees, at most for the allowed time.
async fn check_counters(fleet: &FleetUnderTest, rows: &mut FleetRows) -> Vec<NeighbourFinding> {
    let until = Instant::now() + COUNTERS;
    loop {
        let mut findings = match rows::read_lanes(&mut fleet.redis_connection().await).await {
            Ok(lanes) => check_lanes(&lanes),
            Err(error) => vec![NeighbourFinding::new_finding("Redis", error.to_string())],
        };
        for tenant in TENANTS {
            let told = fleet.quota_usage(tenant).await;
            findings.extend(check_usage(tenant, &told, &rows.used_quotas(tenant).await));
        }
        if findings.is_empty() || Instant::now() > until {
            return findings;
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// The count for the admission of starts equals the rows as well: the number of admitted starts equals the
/// room left by the rows.
async fn check_admission_room(fleet: &FleetUnderTest, rows: &mut FleetRows) -> Option<NeighbourFinding> {
    let open = rows.used_quotas(HOSTILE).await["open_executions"];
    fleet.enforce_hostile_quota(json!({ "child_depth": 1, "open_executions": open + ROOM })).await;
    let mut admitted = 0;
    let start = |number: u64| json!({ "definition": "noisy", "execution_id": format!("room-{number}") });
    while admitted <= ROOM && fleet.hostile.post("/v1/executions", &start(admitted)).await.status == 201 {
        admitted += 1;
    }
    check_room(ROOM, admitted)
}

/// Usage by the name of the quota, for quotas counted by rows.
pub(super) fn usage_by_name(usage: &Value) -> BTreeMap<String, UsedQuota> {
    let items = usage["items"].as_array().into_iter().flatten();
    let used = |item: &Value| Some(UsedQuota { used: item["used"].as_u64()?, quota: item["quota"].as_u64() });
    let stored = items.filter(|item| item["scope"] == "store");
    stored.filter_map(|item| Some((item["name"].as_str()?.to_owned(), used(item)?))).collect()
}
