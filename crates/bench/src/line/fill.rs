//! Fills the line by statements on the tables of a private PostgreSQL.

use millstream_core::assignment::{Item, NewItem, QueueConfig};
use millstream_core::definition::Format;
use millstream_core::id::{ItemId, Name};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use sqlx::PgConnection;

use super::shape::{OVERLAP, Shape};
use crate::error::{BenchError, Result};
use crate::postgres;
use crate::wire::Connection;

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
pub(crate) async fn fill(front: &mut Connection, database: &str, shape: Shape, now: Timestamp) -> Result<()> {
    let config =
        format!("{{\"overlap\":{OVERLAP},\"per_person\":{{\"open\":1000}},\"pre_assignment_timeout\":null}}");
    for queue in Shape::queues() {
        front.put(&format!("/v1/queues/{queue}"), config.as_bytes(), &[200, 201]).await?;
    }
    for person in Shape::people() {
        let skills = RawJson::of(&Shape::skills(person));
        let (path, body) =
            (format!("/v1/people/{}", Shape::person(person)), format!("{{\"skills\":{}}}", skills.as_str()));
        front.put(&path, body.as_bytes(), &[200, 201]).await?;
    }
    let mut connection = postgres::connect(database).await?;
    let (numbers, skills, bodies) = bodies(now)?;
    execute(&mut connection, BODIES).await?;
    let put = sqlx::query(PUT_BODIES).bind(&numbers).bind(&skills).bind(&bodies);
    put.execute(&mut connection).await.map_err(failed)?;
    execute(&mut connection, SETS).await?;
    let items = i64::try_from(shape.items).unwrap_or(i64::MAX);
    for statement in [ITEMS, OPENINGS, "SELECT setval('standing', $1)"] {
        sqlx::query(statement).bind(items).execute(&mut connection).await.map_err(failed)?;
    }
    execute(&mut connection, "VACUUM ANALYZE").await?;
    // In production such a line grows over days. The checkpoint keeps the dirty pages of the fill out of the
    // measurement.
    execute(&mut connection, "CHECKPOINT").await
}

/// Records that these people have had the head of the line: the worst effect of one barred person per
/// hundred.
pub(crate) async fn bar_from_the_head(database: &str, shape: Shape, people: &[usize]) -> Result<()> {
    let mut connection = postgres::connect(database).await?;
    let people: Vec<String> = people.iter().copied().map(Shape::person).collect();
    let head = i64::try_from(shape.head()).unwrap_or(i64::MAX);
    sqlx::query(BAR).bind(&people).bind(head).execute(&mut connection).await.map_err(failed)?;
    execute(&mut connection, "VACUUM ANALYZE openings").await?;
    execute(&mut connection, "CHECKPOINT").await
}

/// Stored rows for an item of each skill set, with placeholders for its id and its queue.
fn bodies(now: Timestamp) -> Result<(Vec<i64>, Vec<String>, Vec<String>)> {
    let wrong =
        |error: &dyn std::fmt::Display| BenchError::Wrong(format!("the line cannot be made: {error}"));
    let config = QueueConfig::parse(&format!("{{name: the-queue, overlap: {OVERLAP}}}"), Format::Yaml)
        .map_err(|faults| wrong(&format!("{faults:?}")))?;
    let (mut numbers, mut skills, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for (number, set) in (1i64..).zip(Shape::sets()) {
        let id = ItemId::parse("THE-ITEM").map_err(|error| wrong(&error))?;
        let mut new = NewItem::plain(id, RawJson::null());
        for skill in set {
            new.own.skills.insert(Name::parse(skill).map_err(|error| wrong(&error))?);
        }
        numbers.push(number);
        skills.push(RawJson::of(&new.own.skills).as_str().to_owned());
        bodies.push(RawJson::of(&Item::imported(&new, &config, now)).as_str().to_owned());
    }
    Ok((numbers, skills, bodies))
}

async fn execute(connection: &mut PgConnection, statement: &'static str) -> Result<()> {
    sqlx::query(statement).execute(connection).await.map(|_| ()).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: sqlx::Error) -> BenchError {
    BenchError::Wrong(format!("filling the line: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_has_a_place_for_the_item_and_its_queue() {
        let (numbers, skills, bodies) = bodies(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()).unwrap();
        assert_eq!((numbers.len(), numbers.first(), numbers.last()), (1140, Some(&1), Some(&1140)));
        assert_eq!(skills[0], "[\"s0\",\"s1\",\"s2\"]");
        let body = bodies[0].replace("THE-ITEM", "i-1").replace("the-queue", "q1");
        let item: Item = serde_json::from_str(&body).unwrap();
        assert_eq!((item.id.as_str(), item.queue.as_str(), item.skills.len()), ("i-1", "q1", 3));
        assert_eq!(usize::try_from(item.overlap).unwrap(), OVERLAP);
    }
}
