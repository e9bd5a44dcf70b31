//! The raw floor: three narrow tables and the fewest statements, the minimum cost of a design of this kind.
//!
//! Per batch of 100 events, over 4 connections: one transaction inserts the events, one inserts the
//! transitions and updates the executions, one marks the events done. No fences, no indexes but the keys, no
//! leases: a reference line, not a production design.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::error::{BenchError, BenchResult};
use crate::postgres::connect_postgres;
use crate::workload::ActionPerformers;
use crate::world::BenchWorld;

const BATCH: usize = 100;
const CONNECTIONS: usize = 4;

const TABLES: &[&str] = &[
    "CREATE TABLE raw_executions (id TEXT PRIMARY KEY, seq BIGINT NOT NULL, state TEXT NOT NULL, snapshot TEXT NOT NULL) WITH (fillfactor = 50)",
    "CREATE TABLE raw_events (id UUID PRIMARY KEY, execution TEXT NOT NULL, name TEXT NOT NULL, payload TEXT NOT NULL, done BOOLEAN NOT NULL DEFAULT FALSE) WITH (fillfactor = 50)",
    "CREATE TABLE raw_transitions (execution TEXT NOT NULL, seq BIGINT NOT NULL, event UUID NOT NULL, decision TEXT NOT NULL, PRIMARY KEY (execution, seq))",
];
const START: &str = "INSERT INTO raw_executions SELECT e, 1, 'open', '{}' FROM unnest($1::text[]) AS e";
const ACCEPT: &str = "INSERT INTO raw_events (id, execution, name, payload) SELECT i, e, 'go', $3 FROM unnest($1::uuid[], $2::text[]) AS t(i, e)";
const APPLY: &str =
    "INSERT INTO raw_transitions SELECT e, 2, i, $3 FROM unnest($1::uuid[], $2::text[]) AS t(i, e)";
const MOVE: &str = "UPDATE raw_executions x SET seq = seq + 1, state = 'open', snapshot = $2 FROM unnest($1::text[]) AS t(e) WHERE x.id = t.e";
const DONE: &str = "UPDATE raw_events x SET done = TRUE FROM unnest($1::uuid[]) AS t(i) WHERE x.id = t.i";
const PAYLOAD: &str = "{\"amount\":7}";
const DECISION: &str = "{\"format\":1,\"branch\":0,\"from\":\"open\",\"to\":\"open\",\"entered\":\"entered\",\"set\":{\"total\":7},\"phase\":\"active\",\"actions\":[\"act\"]}";

/// Events per second.
pub(crate) async fn measure_raw(world: &BenchWorld, events: usize) -> BenchResult<f64> {
    let start = world.new_run(ActionPerformers::Engine);
    let database = world.private_database(&start.run).await?;
    let _bar = world.plan.progress.start_bar("raw floor", events);
    let outcome = run_connections(&database.url, events).await;
    world.clean_up().await;
    outcome
}

async fn run_connections(url: &str, events: usize) -> BenchResult<f64> {
    let mut connection = connect_postgres(url).await?;
    for table in TABLES {
        sqlx::query(*table).execute(&mut connection).await.map_err(raw_error)?;
    }
    for first in (0..events).step_by(1000) {
        let names = execution_names(first, events.min(first + 1000));
        sqlx::query(START).bind(&names).execute(&mut connection).await.map_err(raw_error)?;
    }
    let next = Arc::new(AtomicUsize::new(0));
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(connect_postgres(url).await?);
    }
    let began = Instant::now();
    let mut hands = JoinSet::new();
    for connection in open {
        hands.spawn(write_batches(connection, next.clone(), events));
    }
    while let Some(ended) = hands.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("the raw floor stopped: {error}")))??;
    }
    Ok(crate::usage::as_f64(events) / began.elapsed().as_secs_f64())
}

async fn write_batches(
    mut connection: PgConnection,
    next: Arc<AtomicUsize>,
    events: usize,
) -> BenchResult<()> {
    loop {
        let first = next.fetch_add(BATCH, Ordering::Relaxed);
        if first >= events {
            return Ok(());
        }
        let names = execution_names(first, events.min(first + BATCH));
        let ids: Vec<Uuid> = names.iter().map(|_| Uuid::now_v7()).collect();
        sqlx::query(ACCEPT)
            .bind(&ids)
            .bind(&names)
            .bind(PAYLOAD)
            .execute(&mut connection)
            .await
            .map_err(raw_error)?;
        let mut together = connection.begin().await.map_err(raw_error)?;
        sqlx::query(APPLY)
            .bind(&ids)
            .bind(&names)
            .bind(DECISION)
            .execute(&mut *together)
            .await
            .map_err(raw_error)?;
        sqlx::query(MOVE).bind(&names).bind(DECISION).execute(&mut *together).await.map_err(raw_error)?;
        together.commit().await.map_err(raw_error)?;
        sqlx::query(DONE).bind(&ids).execute(&mut connection).await.map_err(raw_error)?;
    }
}

fn execution_names(first: usize, end: usize) -> Vec<String> {
    (first..end).map(|number| format!("raw-{number}")).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn raw_error(error: sqlx::Error) -> BenchError {
    BenchError::Wrong(format!("the raw floor: {error}"))
}
