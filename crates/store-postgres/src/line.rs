//! Looking along the line of openings.
//!
//! First the head of the queues in order; whom nothing there suits is looked for in the lines of the sets of skills
//! that they have. Both walk an index and hold nothing. What was found is then locked, as far as nobody else has
//! it: from there on it is what the item's row says, and the opening was a hint.

use std::collections::HashMap;

use millstream_core::assignment::next::{Asking, Candidate, Class, Standing};
use millstream_core::id::{ItemKey, Name, TenantId};
use millstream_store::item_store::LoadedItem;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::Attempt;
use crate::item_rows::{self, item_key, key_columns};
use crate::skill_sets::Sets;

/// How far the line of each queue is looked along, one after the other.
const LOOKS: [i64; 2] = [32, 256];
/// How many of what was found are tried to be locked.
const HINTS: usize = 64;
/// How far the line of each set of skills is looked along for one person.
const EACH: i64 = 8;

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) asking: &'a Asking,
    pub(crate) sets: &'a HashMap<(TenantId, Name), Sets>,
    /// How many callers like this one there are.
    pub(crate) count: usize,
}

/// Openings that would suit, in order: enough for all callers, or all that there are.
pub(crate) async fn look(
    connection: &mut PgConnection,
    search: &Search<'_>,
) -> Attempt<Vec<(ItemKey, Candidate)>> {
    let enough = search.count.max(1);
    for depth in LOOKS {
        let (found, exhausted) = look_along(connection, search, depth).await?;
        if exhausted || found.len() >= enough {
            return Ok(found);
        }
    }
    look_in_sets(connection, search).await
}

/// The head of each queue, and whether that was all of it.
async fn look_along(
    connection: &mut PgConnection,
    search: &Search<'_>,
    depth: i64,
) -> Attempt<(Vec<(ItemKey, Candidate)>, bool)> {
    const LINE: &str = "
SELECT o.tenant, o.item, o.queue, o.set_id, o.urgency, o.class, o.position, o.needs, o.barred
FROM unnest($2::text[]) AS k(queue)
CROSS JOIN LATERAL (
    SELECT * FROM openings o WHERE o.queue = k.queue AND o.tenant = $1
    ORDER BY o.urgency, o.class, o.position LIMIT $3
) o";
    let queues: Vec<&str> = search.asking.queues.iter().map(Name::as_str).collect();
    let rows = sqlx::query(LINE)
        .bind(search.tenant.as_str())
        .bind(&queues)
        .bind(depth)
        .fetch_all(connection)
        .await?;
    let mut seen: HashMap<&str, i64> = HashMap::new();
    for row in &rows {
        *seen.entry(row.try_get("queue")?).or_default() += 1;
    }
    let exhausted = seen.values().all(|count| *count < depth);
    Ok((suiting(search, &rows)?, exhausted))
}

async fn look_in_sets(
    connection: &mut PgConnection,
    search: &Search<'_>,
) -> Attempt<Vec<(ItemKey, Candidate)>> {
    const LINES: &str = "
SELECT o.tenant, o.item, o.queue, o.set_id, o.urgency, o.class, o.position, o.needs, o.barred
FROM unnest($2::text[], $3::bigint[]) AS k(queue, set_id)
CROSS JOIN LATERAL (
    SELECT * FROM openings o
    WHERE o.set_id = k.set_id AND o.queue = k.queue AND o.tenant = $1 AND NOT ($4::text = ANY(o.barred))
    ORDER BY o.urgency, o.class, o.position LIMIT $5
) o
ORDER BY o.urgency, o.class, o.position LIMIT $6";
    let mut lines: Vec<(&str, i64)> = Vec::new();
    for queue in &search.asking.queues {
        let sets = search.sets.get(&(search.tenant.clone(), queue.clone()));
        let suiting = sets.into_iter().flat_map(|sets| sets.iter());
        let suiting = suiting.filter(|(_, skills)| skills.is_subset(&search.asking.skills));
        lines.extend(suiting.map(|(number, _)| (queue.as_str(), *number)));
    }
    let (queues, numbers): (Vec<&str>, Vec<i64>) = lines.into_iter().unzip();
    // Whom a group is looked for is not one person: who may not have it is found out afterwards.
    let person = if search.count > 1 { "" } else { search.asking.person.as_str() };
    let most = i64::try_from(search.count.max(HINTS)).unwrap_or(i64::MAX);
    let rows = sqlx::query(LINES)
        .bind(search.tenant.as_str())
        .bind(&queues)
        .bind(&numbers)
        .bind(person)
        .bind(if search.count > 1 { most } else { EACH })
        .bind(most)
        .fetch_all(connection)
        .await?;
    suiting(search, &rows)
}

/// What suits, in order. A group of callers shares its skills; who of them is barred is not looked at here.
fn suiting(search: &Search<'_>, rows: &[PgRow]) -> Attempt<Vec<(ItemKey, Candidate)>> {
    let mut found = Vec::new();
    for row in rows {
        let queue: Name = decode::parsed(row, "queue")?;
        let number: i64 = row.try_get("set_id")?;
        let sets = search.sets.get(&(search.tenant.clone(), queue.clone()));
        let Some(skills) = sets.and_then(|sets| sets.get(&number)) else { continue };
        if !skills.is_subset(&search.asking.skills) {
            continue;
        }
        let barred: Vec<String> = row.try_get("barred")?;
        if search.count <= 1 && barred.iter().any(|person| person == search.asking.person.as_str()) {
            continue;
        }
        let class = if row.try_get::<i16, _>("class")? == 0 { Class::Reopened } else { Class::Fresh };
        let standing =
            Standing { urgency: row.try_get("urgency")?, class, position: row.try_get("position")? };
        let candidate = Candidate {
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

/// Locks up to `most` of the items that were found, the first ones that nobody else has.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    found: &[(ItemKey, Candidate)],
    most: usize,
) -> Attempt<Vec<LoadedItem>> {
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
    item_rows::loaded(connection, &rows).await
}
