//! What is known about people who ask for work: their profiles, assignments and totals, and the queues that they
//! name.

use std::collections::{BTreeSet, HashMap};

use millstream_model::id::{Name, PersonId, TenantId};
use millstream_people::assignment::ItemAssignment;
use millstream_people::assignment::select::PersonProfile;
use millstream_store::assignments::AssignmentCaller;
use millstream_store::opening_selection;
use millstream_store::queue_store::QueueView;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::PostgresResult;
use crate::item_rows;
use crate::queue_configs::QueueConfigCache;
use crate::queue_store::{list_queues, read_queues};

/// Upper bound on queues for a caller that names none.
const MOST_QUEUES: usize = 1_000;

/// In the order of their keys, before every other lock.
pub(crate) async fn lock_people(
    connection: &mut PgConnection,
    callers: &[AssignmentCaller],
) -> PostgresResult<()> {
    const LOCK: &str = "
SELECT pg_advisory_xact_lock(p.number) FROM (
    SELECT DISTINCT hashtextextended(k.tenant || '/' || k.person, 5) AS number
    FROM unnest($1::text[], $2::text[]) AS k(tenant, person) ORDER BY number OFFSET 0
) p";
    sqlx::query(LOCK)
        .bind(callers.iter().map(|caller| caller.tenant.as_str()).collect::<Vec<_>>())
        .bind(callers.iter().map(|caller| caller.person.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    Ok(())
}

/// Profile and assignments of a caller.
pub(crate) struct CallerFacts {
    pub profile: PersonProfile,
    pub open: Vec<ItemAssignment>,
}

/// In the order of the callers.
pub(crate) async fn read_known(
    connection: &mut PgConnection,
    callers: &[AssignmentCaller],
) -> PostgresResult<Vec<CallerFacts>> {
    const READ: &str = "
SELECT p.skills, p.state, ARRAY(
    SELECT a.body FROM assignments a WHERE a.person = k.person AND a.tenant = k.tenant AND a.is_open
) AS open
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k(tenant, person, ord)
LEFT JOIN people p ON p.tenant = k.tenant AND p.person = k.person
ORDER BY k.ord";
    let rows = sqlx::query(READ)
        .bind(callers.iter().map(|caller| caller.tenant.as_str()).collect::<Vec<_>>())
        .bind(callers.iter().map(|caller| caller.person.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let known = |(row, caller): (&PgRow, &AssignmentCaller)| {
        let mut profile = PersonProfile::unknown(caller.person.clone());
        if let Some(state) = decode::parsed_option(row, "state")? {
            profile = PersonProfile { skills: decode::list(row, "skills")?, state, ..profile };
        }
        let mut open = Vec::new();
        for body in row.try_get::<Vec<String>, _>("open")? {
            open.push(item_rows::decode_assignment(&body)?);
        }
        Ok(CallerFacts { profile, open })
    };
    rows.iter().zip(callers).map(known).collect()
}

/// The requested queues.
pub(crate) async fn read_asked(
    connection: &mut PgConnection,
    configs: &QueueConfigCache,
    callers: &[&AssignmentCaller],
) -> PostgresResult<HashMap<TenantId, Vec<QueueView>>> {
    let of_all: BTreeSet<&TenantId> =
        callers.iter().filter(|caller| caller.queues.is_empty()).map(|caller| &caller.tenant).collect();
    let mut named: BTreeSet<(TenantId, Name)> = BTreeSet::new();
    for caller in callers.iter().filter(|caller| !of_all.contains(&caller.tenant)) {
        named.extend(caller.queues.iter().map(|queue| (caller.tenant.clone(), queue.clone())));
    }
    let mut found = Vec::new();
    for tenant in of_all {
        found.extend(list_queues(connection, configs, tenant, "", MOST_QUEUES).await?);
    }
    if !named.is_empty() {
        found.extend(read_queues(connection, configs, &named.into_iter().collect::<Vec<_>>()).await?);
    }
    let mut queues: HashMap<TenantId, Vec<QueueView>> = HashMap::new();
    for (tenant, view) in found {
        queues.entry(tenant).or_default().push(view);
    }
    Ok(queues)
}

/// Completed counts of people, for queues that balance by them.
pub(crate) async fn read_completed(
    connection: &mut PgConnection,
    callers: &[&AssignmentCaller],
    queues: &HashMap<TenantId, Vec<QueueView>>,
) -> PostgresResult<HashMap<((TenantId, PersonId), Name), u64>> {
    const READ: &str = "
SELECT k.tenant, k.queue, k.person, t.completed
FROM unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, queue, person)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(t.completed), 0)::bigint AS completed FROM queue_totals t
    WHERE t.tenant = k.tenant AND t.queue = k.queue AND t.person = k.person
) t";
    let mut wanted: Vec<(&str, &str, &str)> = Vec::new();
    for caller in callers {
        let views = queues.get(&caller.tenant).into_iter().flatten();
        for view in views.filter(|view| view.config.per_person.total.is_some()) {
            if opening_selection::requests_queue(caller, &view.config.name) {
                wanted.push((caller.tenant.as_str(), view.config.name.as_str(), caller.person.as_str()));
            }
        }
    }
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(READ)
        .bind(wanted.iter().map(|(tenant, _, _)| *tenant).collect::<Vec<_>>())
        .bind(wanted.iter().map(|(_, queue, _)| *queue).collect::<Vec<_>>())
        .bind(wanted.iter().map(|(_, _, person)| *person).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let person = (decode::parsed(row, "tenant")?, decode::parsed(row, "person")?);
            let completed: i64 = row.try_get("completed")?;
            Ok(((person, decode::parsed(row, "queue")?), completed.unsigned_abs()))
        })
        .collect()
}
