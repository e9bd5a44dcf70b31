//! Records of the fleet: rows of PostgreSQL and counters of Redis, read directly.

use std::collections::BTreeMap;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamInfoGroupsReply, StreamRangeReply};
use sqlx::{Connection, PgConnection, Row};

use super::settled::{EventTimes, LaneCounters};

const GROUP: &str = "workers";

/// Undecided events; those of executions that wait for a person are left out.
const UNDECIDED: &str = "
SELECT count(*) FROM mailbox m JOIN executions x USING (tenant, execution_id)
WHERE NOT m.deferred AND x.paused_reason IS NULL AND m.tenant = $1";

/// Events that clients of a tenant posted; its key has the tenant's name.
const POSTED: &str =
    "SELECT count(*) FROM events WHERE tenant = $1 AND actor = $1 AND name NOT LIKE 'millstream.%'";

const TIMES: &str = "
SELECT e.created_at, coalesce(t.committed_at, e.closed_at) AS decided_at
FROM events e LEFT JOIN transitions t ON t.event_id = e.event_id AND t.tenant = e.tenant
WHERE e.tenant = $1 AND coalesce(t.committed_at, e.closed_at) IS NOT NULL";

/// By the name of the quota.
const USED: [(&str, &str); 5] = [
    ("open_executions", "SELECT count(*) FROM executions WHERE tenant = $1 AND ended_at IS NULL"),
    ("definitions", "SELECT count(*) FROM definitions WHERE tenant = $1"),
    ("executors", "SELECT count(*) FROM executors WHERE tenant = $1"),
    ("devices", "SELECT count(*) FROM devices WHERE tenant = $1"),
    ("queue_items", "SELECT count(*) FROM items WHERE tenant = $1 AND ended_at IS NULL"),
];

/// The rows of a fleet.
#[derive(Debug)]
pub(super) struct FleetRows(PgConnection);

impl FleetRows {
    pub(super) async fn connect(url: &str) -> Self {
        Self(PgConnection::connect(url).await.expect("connect to PostgreSQL"))
    }

    async fn count(&mut self, statement: &'static str, tenant: &str) -> u64 {
        let count: i64 =
            sqlx::query_scalar(statement).bind(tenant).fetch_one(&mut self.0).await.expect("a count");
        count.unsigned_abs()
    }

    pub(super) async fn undecided_events(&mut self, tenant: &str) -> u64 {
        self.count(UNDECIDED, tenant).await
    }

    pub(super) async fn posted_events(&mut self, tenant: &str) -> u64 {
        self.count(POSTED, tenant).await
    }

    /// Times of every decided event of a tenant.
    pub(super) async fn event_times(&mut self, tenant: &str) -> Vec<EventTimes> {
        let rows = sqlx::query(TIMES).bind(tenant).fetch_all(&mut self.0).await.expect("the times of events");
        let times = |row: sqlx::postgres::PgRow| (row.get("created_at"), row.get("decided_at"));
        rows.into_iter().map(times).collect()
    }

    /// Usage of a tenant, by quota.
    pub(super) async fn used_quotas(&mut self, tenant: &str) -> BTreeMap<String, u64> {
        let mut used = BTreeMap::new();
        for (name, statement) in USED {
            used.insert(name.to_owned(), self.count(statement, tenant).await);
        }
        used
    }
}

/// Every lane that has a stream or a counter.
pub(super) async fn read_lanes(
    connection: &mut MultiplexedConnection,
) -> redis::RedisResult<Vec<LaneCounters>> {
    let keys: Vec<String> = connection.keys("millstream:{l*").await?;
    let mut lanes: Vec<&str> = keys.iter().filter_map(|key| Some(key.split_once('}')?.0)).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let mut found = Vec::new();
    for lane in lanes {
        let stream = format!("{lane}}}:bells");
        let lists = format!("{lane}}}:over:");
        let mut overflow = BTreeMap::new();
        for list in keys.iter().filter(|key| key.starts_with(&lists)) {
            overflow.insert(list[lists.len()..].to_owned(), connection.llen(list).await?);
        }
        found.push(LaneCounters {
            counted: connection.hgetall(format!("{lane}}}:deep")).await?,
            overflowing: connection.smembers(format!("{lane}}}:overs")).await?,
            unread: unread_doorbells(connection, &stream).await?,
            overflow,
            stream,
        });
    }
    Ok(found)
}

/// Doorbells of mailboxes that no worker has read, by tenant.
async fn unread_doorbells(
    connection: &mut MultiplexedConnection,
    stream: &str,
) -> redis::RedisResult<BTreeMap<String, i64>> {
    if !connection.exists::<_, bool>(stream).await? {
        return Ok(BTreeMap::new());
    }
    let groups: StreamInfoGroupsReply = connection.xinfo_groups(stream).await?;
    let read = groups.groups.iter().find(|group| group.name == GROUP).map(|group| &group.last_delivered_id);
    let after = read.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
    let entries: StreamRangeReply = connection.xrange(stream, after, "+").await?;
    let mut unread = BTreeMap::new();
    for entry in entries.ids {
        if entry.get::<String>("b").as_deref() == Some("m")
            && let Some(tenant) = entry.get::<String>("t")
        {
            *unread.entry(tenant).or_default() += 1;
        }
    }
    Ok(unread)
}
