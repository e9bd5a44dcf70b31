//! Fills the line by statements on the tables of a private PostgreSQL.

use millstream_model::document::SourceFormat;
use millstream_model::id::{ItemId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{NewQueueItem, QueueConfig, QueueItem};
use sqlx::PgConnection;

use super::shape::{LineShape, OVERLAP};
use crate::error::{BenchError, BenchResult};
use crate::postgres;
use crate::wire::BenchConnection;

const BODIES: &str = "CREATE TEMP TABLE bodies (set_id BIGINT PRIMARY KEY, skills TEXT, body TEXT)";
const PUT_BODIES: &str = "INSERT INTO bodies SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])";
const SETS: &str = "INSERT INTO skill_sets (tenant, queue, set_id, skills)
    SELECT 'default', 'q' || q, set_id, skills FROM bodies, generate_series(0, 9) q";
const ITEMS: &str = "INSERT INTO items (tenant, item, queue, status, version, position, body, payload)
    SELECT 'default', 'i-' || n, 'q' || n % 10, 'open', 1, n,
           replace(replace(b.body, 'THE-ITEM', 'i-' || n), 'the-queue', 'q' || n % 10), '{\"n\":1}'
    FROM generate_series(1::bigint, $1) n JOIN bodies b ON b.set_id = n * 7919 / 10 % 1140 + 1";
const OPENINGS: &str =
    "INSERT INTO openings (tenant, item, queue, set_id, urgency, class, position, needs, barred)
    SELECT 'default', 'i-' || n, 'q' || n % 10, n * 7919 / 10 % 1140 + 1, 0, 1, n, 2,
           ARRAY['p' || n * 31 / 7 % 100]
    FROM generate_series(1::bigint, $1) n";
const BAR: &str = "UPDATE openings SET barred = barred || $1::text[] WHERE position <= $2";

/// Creates queues and people over HTTP, and the items by statements.
pub(crate) async fn fill_line(
    front: &mut BenchConnection,
    database: &str,
    shape: LineShape,
    now: Timestamp,
) -> BenchResult<()> {
    let config =
        format!("{{\"overlap\":{OVERLAP},\"per_person\":{{\"open\":1000}},\"pre_assignment_timeout\":null}}");
    for queue in LineShape::queue_names() {
        front.put(&format!("/v1/queues/{queue}"), config.as_bytes(), &[200, 201]).await?;
    }
    for person in LineShape::people_numbers() {
        let skills = RawJson::from_value(&LineShape::person_skills(person));
        let (path, body) = (
            format!("/v1/people/{}", LineShape::person_name(person)),
            format!("{{\"skills\":{}}}", skills.as_str()),
        );
        front.put(&path, body.as_bytes(), &[200, 201]).await?;
    }
    let mut connection = postgres::connect_postgres(database).await?;
    let (numbers, skills, bodies) = item_bodies(now)?;
    execute_statement(&mut connection, BODIES).await?;
    let put = sqlx::query(PUT_BODIES).bind(&numbers).bind(&skills).bind(&bodies);
    put.execute(&mut connection).await.map_err(fill_error)?;
    execute_statement(&mut connection, SETS).await?;
    let items = i64::try_from(shape.items).unwrap_or(i64::MAX);
    for statement in [ITEMS, OPENINGS, "SELECT setval('standing', $1)"] {
        sqlx::query(statement).bind(items).execute(&mut connection).await.map_err(fill_error)?;
    }
    execute_statement(&mut connection, "VACUUM ANALYZE").await?;
    // In production such a line grows over days. The checkpoint keeps the dirty pages of the fill out of the
    // measurement.
    execute_statement(&mut connection, "CHECKPOINT").await
}

/// Records that these people have had the head of the line: the worst effect of one barred person per
/// hundred.
pub(crate) async fn bar_from_the_head(database: &str, shape: LineShape, people: &[usize]) -> BenchResult<()> {
    let mut connection = postgres::connect_postgres(database).await?;
    let people: Vec<String> = people.iter().copied().map(LineShape::person_name).collect();
    let head = i64::try_from(shape.head_length()).unwrap_or(i64::MAX);
    sqlx::query(BAR).bind(&people).bind(head).execute(&mut connection).await.map_err(fill_error)?;
    execute_statement(&mut connection, "VACUUM ANALYZE openings").await?;
    execute_statement(&mut connection, "CHECKPOINT").await
}

/// Stored rows for an item of each skill set, with placeholders for its id and its queue.
fn item_bodies(now: Timestamp) -> BenchResult<(Vec<i64>, Vec<String>, Vec<String>)> {
    let wrong =
        |error: &dyn std::fmt::Display| BenchError::Wrong(format!("the line cannot be made: {error}"));
    let config = QueueConfig::parse(&format!("{{name: the-queue, overlap: {OVERLAP}}}"), SourceFormat::Yaml)
        .map_err(|faults| wrong(&format!("{faults:?}")))?;
    let (mut numbers, mut skills, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for (number, set) in (1i64..).zip(LineShape::skill_sets()) {
        let id = ItemId::parse("THE-ITEM").map_err(|error| wrong(&error))?;
        let mut new = NewQueueItem::with_defaults(id, RawJson::null());
        for skill in set {
            new.own.skills.insert(Name::parse(skill).map_err(|error| wrong(&error))?);
        }
        numbers.push(number);
        skills.push(RawJson::from_value(&new.own.skills).as_str().to_owned());
        bodies.push(RawJson::from_value(&QueueItem::from_import(&new, &config, now)).as_str().to_owned());
    }
    Ok((numbers, skills, bodies))
}

async fn execute_statement(connection: &mut PgConnection, statement: &'static str) -> BenchResult<()> {
    sqlx::query(statement).execute(connection).await.map(|_| ()).map_err(fill_error)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn fill_error(error: sqlx::Error) -> BenchError {
    BenchError::Wrong(format!("filling the line: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_bodies_have_placeholders() {
        let (numbers, skills, bodies) =
            item_bodies(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()).unwrap();
        assert_eq!((numbers.len(), numbers.first(), numbers.last()), (1140, Some(&1), Some(&1140)));
        assert_eq!(skills[0], "[\"s0\",\"s1\",\"s2\"]");
        let body = bodies[0].replace("THE-ITEM", "i-1").replace("the-queue", "q1");
        let item: QueueItem = serde_json::from_str(&body).unwrap();
        assert_eq!((item.id.as_str(), item.queue.as_str(), item.skills.len()), ("i-1", "q1", 3));
        assert_eq!(usize::try_from(item.overlap).unwrap(), OVERLAP);
    }
}
