//! Guarantees after the attacks. Pure: counters and rows in, findings out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check::NeighbourFinding;

/// Maximum wait of an event beyond the age at which the overdue sweep rings again.
pub const WAIT_BEYOND_OVERDUE: Duration = Duration::from_secs(10);

/// Contents of Redis for one lane, by tenant; tenants without any are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// The stream of the lane.
    pub stream: String,
    /// Unread mailbox doorbells according to the advisory count.
    pub counted: BTreeMap<String, i64>,
    /// Unread mailbox doorbells in the stream.
    pub unread: BTreeMap<String, i64>,
    /// Doorbells beyond the window, in the lists of tenants.
    pub overflow: BTreeMap<String, i64>,
    /// Tenants that the lane records as having such a list.
    pub overflowing: Vec<String>,
}

/// Counts and doorbells of lanes once no event is undecided: all must be zero.
pub fn check_lanes(lanes: &[LaneCounters]) -> Vec<NeighbourFinding> {
    let mut found = Vec::new();
    for lane in lanes {
        let mut find = |what: String| found.push(NeighbourFinding::new_finding(&lane.stream, what));
        if lane.counted != lane.unread {
            find(format!("counts {:?} doorbells as unread and has {:?}", lane.counted, lane.unread));
        }
        if !lane.unread.is_empty() {
            find(format!("unread doorbells: {:?}", lane.unread));
        }
        if !lane.overflow.is_empty() || !lane.overflowing.is_empty() {
            find(format!("overflow that is not moved up: {:?} of {:?}", lane.overflow, lane.overflowing));
        }
    }
    found
}

/// When an event was accepted and decided, in milliseconds.
pub type EventTimes = (i64, i64);

/// The longest wait of an event without older waiting events of its tenant.
///
/// A tenant that posts faster than its events are decided waits for itself: of `n` events accepted before an
/// event, `n` decisions are its own backlog. The wait beyond that, or beyond its own acceptance, is counted.
pub fn longest_wait(events: &[EventTimes]) -> Duration {
    let mut by_acceptance = events.to_vec();
    by_acceptance.sort_unstable();
    let mut decisions: Vec<i64> = events.iter().map(|(_, decided)| *decided).collect();
    decisions.sort_unstable();
    // The first event has no backlog before it.
    let backlog_decided = std::iter::once(i64::MIN).chain(decisions);
    let wait = |((accepted, decided), turn): (&EventTimes, i64)| decided - turn.max(*accepted);
    let waits = by_acceptance.iter().zip(backlog_decided).map(wait);
    Duration::from_millis(waits.max().unwrap_or(0).max(0).unsigned_abs())
}

/// Checks whether events of a tenant waited too long.
pub fn check_waits(tenant: &str, longest: Duration, overdue: Duration) -> Option<NeighbourFinding> {
    let allowed = overdue + WAIT_BEYOND_OVERDUE;
    let what = || format!("an event waited {longest:.1?} to be decided, allowed are {allowed:?}");
    (longest > allowed).then(|| NeighbourFinding::new_finding(format!("tenant {tenant}"), what()))
}

/// Events posted by clients of the hostile tenant: the answers, and the stored rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PostedEvents {
    pub accepted: u64,
    /// Events of requests without a known answer.
    pub in_doubt: u64,
    pub rows: u64,
    /// Rows without a decision, except those of executions that wait for a person.
    pub undecided: u64,
}

/// Checks that every accepted event exists and is decided, and no other exists.
pub fn check_posted(posted: &PostedEvents) -> Vec<NeighbourFinding> {
    let PostedEvents { accepted, in_doubt, rows, undecided } = posted;
    let mut found = Vec::new();
    let mut find = |what: String| found.push(NeighbourFinding::new_finding("hostile events", what));
    if rows < accepted {
        find(format!("{accepted} were accepted and {rows} are stored"));
    }
    if *rows > accepted + in_doubt {
        find(format!("{rows} are stored and only {accepted} accepted"));
    }
    if *undecided > 0 {
        find(format!("{undecided} are not decided"));
    }
    found
}

/// Answers of the fleet to a tenant at its quotas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaOutcome {
    /// Keys under which an event was accepted.
    pub accepted: u64,
    /// Keys that were never answered.
    pub in_doubt: u64,
    /// Refusals that name a quota, by its name.
    pub refused: BTreeMap<String, u64>,
    /// Refusals that name no quota, and repeats that were not answered with their event.
    pub wrong: Vec<String>,
}

/// Checks that a tenant at its quotas lost nothing and was refused by name; `applied` of its events are
/// applied.
pub fn check_quota(outcome: &QuotaOutcome, applied: u64) -> Vec<NeighbourFinding> {
    let QuotaOutcome { accepted, in_doubt, refused, wrong } = outcome;
    let mut found = Vec::new();
    let mut find = |what: String| found.push(NeighbourFinding::new_finding("at-quota", what));
    if !(*accepted..=accepted + in_doubt).contains(&applied) {
        find(format!("{accepted} events were accepted and {applied} applied"));
    }
    for quota in ["events_per_second", "open_executions"] {
        if !refused.contains_key(quota) {
            find(format!("nothing was refused by {quota}: {refused:?}"));
        }
    }
    if let Some(first) = wrong.first() {
        find(format!("{} answers are wrong, such as: {first}", wrong.len()));
    }
    found
}

/// Checks the number of admitted starts against the remaining room, after everything was quiet.
pub fn check_room(room: u64, admitted: u64) -> Option<NeighbourFinding> {
    let what = format!("{admitted} executions were admitted where rows left room for {room}");
    (admitted != room).then(|| NeighbourFinding::new_finding("quota open_executions", what))
}

/// One quota in the answer of `/v1/tenants/{tenant}/usage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedQuota {
    pub used: u64,
    /// `None`: unlimited.
    pub quota: Option<u64>,
}

/// Checks that usage equals the rows, by quota. Counting ends one row beyond a quota.
pub fn check_usage(
    tenant: &str,
    told: &BTreeMap<String, UsedQuota>,
    rows: &BTreeMap<String, u64>,
) -> Vec<NeighbourFinding> {
    let equals =
        |told: &UsedQuota, rows: u64| told.used == told.quota.map_or(rows, |quota| rows.min(quota + 1));
    let differs = |(name, rows): (&String, &u64)| {
        let told = told.get(name);
        let what = || format!("usage says {told:?} {name}, rows say {rows}");
        let equal = told.is_some_and(|told| equals(told, *rows));
        (!equal).then(|| NeighbourFinding::new_finding(format!("tenant {tenant}"), what()))
    };
    rows.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant_counts(tenant: &str, count: i64) -> BTreeMap<String, i64> {
        BTreeMap::from([(tenant.to_owned(), count)])
    }

    #[test]
    fn a_lane_without_doorbells_counts_none() {
        assert_eq!(check_lanes(&[LaneCounters::default()]), []);
        let drifted = LaneCounters { counted: tenant_counts("a", 3), ..LaneCounters::default() };
        assert_eq!(check_lanes(&[drifted]).len(), 1);
    }

    #[test]
    fn leftover_doorbells_are_found() {
        let unread = LaneCounters {
            counted: tenant_counts("a", 3),
            unread: tenant_counts("a", 3),
            ..LaneCounters::default()
        };
        assert_eq!(check_lanes(&[unread]).len(), 1);
        let list = LaneCounters { overflow: tenant_counts("a", 3), ..LaneCounters::default() };
        assert_eq!(check_lanes(&[list]).len(), 1);
        let known = LaneCounters { overflowing: vec!["a".to_owned()], ..LaneCounters::default() };
        assert_eq!(check_lanes(&[known]).len(), 1);
    }

    #[test]
    fn own_backlog_is_no_wait() {
        // Three at once, decided one per second: the last one waited for the two before it.
        assert_eq!(longest_wait(&[(0, 1_000), (0, 2_000), (0, 3_000)]), Duration::from_secs(1));
        assert_eq!(longest_wait(&[]), Duration::ZERO);
    }

    #[test]
    fn overtaken_event_waits() {
        assert_eq!(longest_wait(&[(0, 10_000), (1, 1_000), (2, 2_000)]), Duration::from_secs(10));
    }

    #[test]
    fn single_event_waits_from_acceptance() {
        assert_eq!(longest_wait(&[(0, 10), (5_000, 26_000)]), Duration::from_secs(21));
        let overdue = Duration::from_secs(10);
        assert_eq!(check_waits("a", Duration::from_secs(20), overdue), None);
        assert!(check_waits("a", Duration::from_millis(20_001), overdue).is_some());
    }

    #[test]
    fn posted_events_must_be_stored_and_decided() {
        let good = PostedEvents { accepted: 10, in_doubt: 2, rows: 11, undecided: 0 };
        assert_eq!(check_posted(&good), []);
        assert_eq!(check_posted(&PostedEvents { rows: 9, ..good }).len(), 1);
        assert_eq!(check_posted(&PostedEvents { rows: 13, ..good }).len(), 1);
        assert_eq!(check_posted(&PostedEvents { undecided: 1, ..good }).len(), 1);
    }

    #[test]
    fn tenant_at_quota_loses_nothing() {
        let refused = ["events_per_second", "open_executions"].map(|name| (name.to_owned(), 1));
        let good = QuotaOutcome { accepted: 10, in_doubt: 1, refused: refused.into(), wrong: Vec::new() };
        assert_eq!(check_quota(&good, 10), []);
        assert_eq!(check_quota(&good, 11), []);
        assert_eq!(check_quota(&good, 9).len(), 1);
        assert_eq!(check_quota(&good, 12).len(), 1);
        assert_eq!(check_quota(&QuotaOutcome { refused: BTreeMap::new(), ..good.clone() }, 10).len(), 2);
        assert_eq!(check_quota(&QuotaOutcome { wrong: vec!["500".to_owned()], ..good }, 10).len(), 1);
    }

    #[test]
    fn admitted_starts_equal_the_room() {
        assert_eq!(check_room(5, 5), None);
        assert!(check_room(5, 4).is_some());
        assert!(check_room(5, 6).is_some());
    }

    #[test]
    fn usage_equals_the_rows() {
        let used = |used, quota| UsedQuota { used, quota };
        let told = BTreeMap::from([
            ("devices".to_owned(), used(1, None)),
            ("definitions".to_owned(), used(3, Some(2))),
        ]);
        let rows = BTreeMap::from([("devices".to_owned(), 1), ("definitions".to_owned(), 9)]);
        assert_eq!(check_usage("a", &told, &rows), []);
        let rows = BTreeMap::from([("devices".to_owned(), 2), ("executors".to_owned(), 0)]);
        assert_eq!(check_usage("a", &told, &rows).len(), 2);
    }
}
