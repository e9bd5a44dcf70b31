//! Searches the queues for openings that suit a caller.
//!
//! First the heads of the queues in order; if nothing there suits, the heads of the caller's skill sets, or,
//! if most of the sets suit, further along the queues, past the items that the caller has had. Every search
//! walks an index and locks nothing. The openings found are then locked, skipping those that other
//! transactions hold: from there on the item's row decides, and the opening was a hint.

use std::collections::HashMap;

use millstream_model::id::{ItemKey, Name, TenantId};
use millstream_people::assignment::select::{AskingPerson, OpeningCandidate, OpeningClass, QueuePosition};
use millstream_store::item_store::LoadedItem;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::PostgresResult;
use crate::item_rows::{self, item_key, key_columns};
use crate::skill_sets::SkillSetView;

/// How many openings of all queues together are read at first, and then if many skill sets suit.
const LOOKS: [usize; 2] = [32, 256];
/// With fewer skill sets than this their heads are read faster than the whole queue.
const FEW_LINES: usize = 32;
/// With more skill sets than this the person's earlier items fill the head: that many are skipped at most, in
/// all queues together.
const MANY_LINES: usize = 256;
const PASSED: usize = 16_384;
/// How many of the found openings a transaction tries to lock.
const HINTS: usize = 64;

/// The heads of queues.
const LINE: &str = "
SELECT o.tenant, o.item, o.queue, o.set_id, o.urgency, o.class, o.position, o.needs, o.barred
FROM unnest($2::text[]) AS k(queue)
CROSS JOIN LATERAL (
    SELECT * FROM openings o WHERE o.queue = k.queue AND o.tenant = $1
    ORDER BY o.urgency, o.class, o.position LIMIT $3
) o";

/// Openings of items that a person has not had, the first in each queue.
const BEYOND: &str = "
SELECT o.tenant, o.item, o.queue, o.set_id, o.urgency, o.class, o.position, o.needs, o.barred
FROM unnest($2::text[]) AS k(queue)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT * FROM openings o WHERE o.queue = k.queue AND o.tenant = $1
        ORDER BY o.urgency, o.class, o.position LIMIT $5
    ) o
    WHERE NOT ($3::text = ANY(o.barred)) LIMIT $4
) o";

/// The heads of the skill sets.
const LINES: &str = "
SELECT o.tenant, o.item, o.queue, o.set_id, o.urgency, o.class, o.position, o.needs, o.barred
FROM unnest($2::text[], $3::bigint[]) AS k(queue, set_id)
CROSS JOIN LATERAL (
    SELECT * FROM openings o
    WHERE o.set_id = k.set_id AND o.queue = k.queue AND o.tenant = $1 AND NOT ($4::text = ANY(o.barred))
    ORDER BY o.urgency, o.class, o.position LIMIT $5
) o
ORDER BY o.urgency, o.class, o.position LIMIT $6";

/// The search request.
#[derive(Debug)]
pub(crate) struct OpeningSearch<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) asking: &'a AskingPerson,
    /// Number of callers with equal queues and skills.
    pub(crate) count: usize,
}

/// Openings that would suit, in order: enough for all callers, or all that there are.
pub(crate) async fn find_openings(
    connection: &mut PgConnection,
    search: &OpeningSearch<'_>,
    sets: &mut SkillSetView<'_>,
) -> PostgresResult<Vec<(ItemKey, OpeningCandidate)>> {
    let enough = search.count.max(1);
    let [first, further] = LOOKS.map(|all| all.max(enough) / search.asking.queues.len().max(1));
    let head = look_along(connection, search, sets, first).await?;
    if head.is_all || head.found.len() >= enough {
        return Ok(head.found);
    }
    sets.read_all(connection).await?;
    let lines = search.suitable_sets(sets);
    if lines.len() >= MANY_LINES && search.count <= 1 {
        let found = look_beyond(connection, search, sets).await?;
        if found.len() >= enough {
            return Ok(found);
        }
    } else if lines.len() >= FEW_LINES {
        let head = look_along(connection, search, sets, further).await?;
        if head.is_all || head.found.len() >= enough {
            return Ok(head.found);
        }
    }
    look_in_sets(connection, search, sets, lines).await
}

impl OpeningSearch<'_> {
    /// The queues and skill sets that suit.
    fn suitable_sets(&self, sets: &SkillSetView<'_>) -> Vec<(&str, i64)> {
        let mut lines = Vec::new();
        for queue in &self.asking.queues {
            let sets = sets.sets_of(&(self.tenant.clone(), queue.clone()));
            let suiting = sets.into_iter().flat_map(|sets| sets.iter());
            let suiting = suiting.filter(|(_, skills)| skills.is_subset(&self.asking.skills));
            lines.extend(suiting.map(|(number, _)| (queue.as_str(), *number)));
        }
        lines
    }
}

/// Suitable openings at the heads of queues.
struct QueueHead {
    found: Vec<(ItemKey, OpeningCandidate)>,
    /// Whether that was all of them.
    is_all: bool,
}

async fn look_along(
    connection: &mut PgConnection,
    search: &OpeningSearch<'_>,
    sets: &mut SkillSetView<'_>,
    depth: usize,
) -> PostgresResult<QueueHead> {
    let depth = i64::try_from(depth.max(8)).unwrap_or(i64::MAX);
    let queues: Vec<&str> = search.asking.queues.iter().map(Name::as_str).collect();
    let rows = sqlx::query(LINE)
        .bind(search.tenant.as_str())
        .bind(&queues)
        .bind(depth)
        .fetch_all(&mut *connection)
        .await?;
    let mut seen: HashMap<&str, i64> = HashMap::new();
    for row in &rows {
        *seen.entry(row.try_get("queue")?).or_default() += 1;
    }
    let is_all = seen.values().all(|count| *count < depth);
    if !all_known(search, sets, &rows)? {
        sets.read_all(connection).await?;
    }
    Ok(QueueHead { found: suitable_openings(search, sets, &rows)?, is_all })
}

/// Whether every skill set in these rows has been read.
fn all_known(search: &OpeningSearch<'_>, sets: &SkillSetView<'_>, rows: &[PgRow]) -> PostgresResult<bool> {
    for row in rows {
        let (queue, number): (Name, i64) = (decode::parsed(row, "queue")?, row.try_get("set_id")?);
        if sets.sets_of(&(search.tenant.clone(), queue)).is_none_or(|sets| !sets.contains_key(&number)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Openings beyond the items that the person has had.
async fn look_beyond(
    connection: &mut PgConnection,
    search: &OpeningSearch<'_>,
    sets: &SkillSetView<'_>,
) -> PostgresResult<Vec<(ItemKey, OpeningCandidate)>> {
    let queues: Vec<&str> = search.asking.queues.iter().map(Name::as_str).collect();
    let each = PASSED / queues.len().max(1);
    let rows = sqlx::query(BEYOND)
        .bind(search.tenant.as_str())
        .bind(&queues)
        .bind(search.asking.person.as_str())
        .bind(i64::try_from(HINTS).unwrap_or(i64::MAX))
        .bind(i64::try_from(each).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    suitable_openings(search, sets, &rows)
}

async fn look_in_sets(
    connection: &mut PgConnection,
    search: &OpeningSearch<'_>,
    sets: &SkillSetView<'_>,
    lines: Vec<(&str, i64)>,
) -> PostgresResult<Vec<(ItemKey, OpeningCandidate)>> {
    let (queues, numbers): (Vec<&str>, Vec<i64>) = lines.into_iter().unzip();
    // A group of callers is not one person: excluded callers are filtered out afterwards.
    let person = if search.count > 1 { "" } else { search.asking.person.as_str() };
    let most = search.count.max(HINTS);
    // A share of each, so that all of them together are enough.
    let each = if search.count > 1 { most } else { most.div_ceil(numbers.len().max(1)) };
    let [each, most] = [each, most].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let rows = sqlx::query(LINES)
        .bind(search.tenant.as_str())
        .bind(&queues)
        .bind(&numbers)
        .bind(person)
        .bind(each)
        .bind(most)
        .fetch_all(connection)
        .await?;
    suitable_openings(search, sets, &rows)
}

/// Suitable openings, in order. A group of callers shares its skills; callers excluded from an item are not
/// checked here.
fn suitable_openings(
    search: &OpeningSearch<'_>,
    sets: &SkillSetView<'_>,
    rows: &[PgRow],
) -> PostgresResult<Vec<(ItemKey, OpeningCandidate)>> {
    let mut found = Vec::new();
    for row in rows {
        let queue: Name = decode::parsed(row, "queue")?;
        let number: i64 = row.try_get("set_id")?;
        let theirs = sets.sets_of(&(search.tenant.clone(), queue.clone()));
        let Some(skills) = theirs.and_then(|sets| sets.get(&number)) else { continue };
        if !skills.is_subset(&search.asking.skills) {
            continue;
        }
        let barred: Vec<String> = row.try_get("barred")?;
        if search.count <= 1 && barred.iter().any(|person| person == search.asking.person.as_str()) {
            continue;
        }
        let class =
            if row.try_get::<i16, _>("class")? == 0 { OpeningClass::Reopened } else { OpeningClass::Fresh };
        let standing =
            QueuePosition { urgency: row.try_get("urgency")?, class, position: row.try_get("position")? };
        let candidate = OpeningCandidate {
            queue,
            skills: skills.clone(),
            needs: usize::try_from(row.try_get::<i32, _>("needs")?).unwrap_or(0),
            barred: Default::default(),
            standing,
        };
        found.push((item_key(row)?, candidate));
    }
    found.sort_by_key(|(_, candidate)| candidate.standing);
    Ok(found)
}

/// Locks up to `most` of the found items, the first ones that no other transaction has locked.
pub(crate) async fn lock_openings(
    connection: &mut PgConnection,
    found: &[(ItemKey, OpeningCandidate)],
    most: usize,
) -> PostgresResult<Vec<LoadedItem>> {
    const LOCK: &str = "
SELECT i.tenant, i.item, i.version, i.body, i.payload
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k(tenant, item, ord)
JOIN items i ON i.item = k.item AND i.tenant = k.tenant
ORDER BY k.ord LIMIT $3
FOR NO KEY UPDATE OF i SKIP LOCKED";
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let hints = found.iter().take(HINTS.max(most)).map(|(key, _)| key);
    let (tenants, ids) = key_columns(hints);
    let rows = sqlx::query(LOCK)
        .bind(&tenants)
        .bind(&ids)
        .bind(i64::try_from(most).unwrap_or(i64::MAX))
        .fetch_all(&mut *connection)
        .await?;
    item_rows::load_locked(connection, &rows).await
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use millstream_testkit::postgres;
    use sqlx::AssertSqlSafe;

    use super::*;
    use crate::connect::{PostgresOptions, PostgresStore};

    /// The plan on a full table, from a connection of the store.
    async fn plan(store: &PostgresStore, statement: &str, lines: &[(&str, i64)]) -> String {
        let (queues, numbers): (Vec<&str>, Vec<i64>) = lines.iter().copied().unzip();
        let explain =
            AssertSqlSafe(format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement}"));
        let query = sqlx::query(explain).bind("default").bind(queues);
        let query = if statement == LINE {
            query.bind(32i64)
        } else if statement == BEYOND {
            query.bind("ann").bind(64i64).bind(16_384i64)
        } else {
            query.bind(numbers).bind("ann").bind(8i64).bind(64i64)
        };
        let rows = query.fetch_all(&store.pool).await.unwrap();
        let mut text = String::new();
        for row in rows {
            writeln!(text, "{}", row.get::<&str, _>(0)).unwrap();
        }
        text
    }

    #[tokio::test]
    async fn opening_search_uses_ordered_index() {
        const FILL: &str = "
INSERT INTO openings (tenant, item, queue, set_id, urgency, class, position, needs, barred)
SELECT 'default', 'i-' || n, 'q' || n % 3, n % 50, n % 7, n % 2, n, 1, CASE WHEN n < 3000 THEN '{ann}' ELSE '{}' END::text[]
FROM generate_series(1, 30000) n";
        let database = postgres::private_database().await;
        let store = PostgresStore::connect(&database.url, PostgresOptions::default()).await.unwrap();
        store.migrate().await.unwrap();
        sqlx::query(FILL).execute(&store.pool).await.unwrap();
        // With fresh statistics, and without.
        for analyze in ["SELECT 1", "ANALYZE openings"] {
            sqlx::query(analyze).execute(&store.pool).await.unwrap();
            let line = plan(&store, LINE, &[("q0", 0), ("q1", 0)]).await;
            assert!(line.contains("Index Scan using openings_line"), "{line}");
            assert!(!line.contains("Seq Scan") && !line.contains("Sort"), "{line}");
            // It stops at the first suitable row.
            let beyond = plan(&store, BEYOND, &[("q0", 0), ("q1", 0)]).await;
            assert!(beyond.contains("Index Scan using openings_line"), "{beyond}");
            assert!(!beyond.contains("Seq Scan") && !beyond.contains("Sort"), "{beyond}");
            let lines = plan(&store, LINES, &[("q0", 3), ("q1", 4), ("q2", 5)]).await;
            assert!(lines.contains("Index Scan using openings_set"), "{lines}");
            // Only the heads are sorted; no sort is below the limit of each queue.
            let within = lines.split("Limit").nth(2).unwrap();
            assert!(!lines.contains("Seq Scan") && !within.contains("Sort"), "{lines}");
        }
        store.close().await;
    }
}
