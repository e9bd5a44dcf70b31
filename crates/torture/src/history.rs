//! Contents of the database, read after everything is quiet.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

#[derive(Debug, Clone, Default)]
pub struct TortureHistory {
    pub executions: BTreeMap<String, TortureExecution>,
    pub events: BTreeMap<Uuid, TortureEvent>,
    /// By execution, in the order of their seq.
    pub transitions: BTreeMap<String, Vec<TortureTransition>>,
    pub actions: Vec<TortureAction>,
    /// Armed and not fired yet.
    pub timers: Vec<TortureTimer>,
    /// The database's time, in milliseconds.
    pub now: i64,
}

#[derive(Debug, Clone)]
pub struct TortureExecution {
    pub definition: String,
    pub seq: i64,
    pub state: String,
    pub phase: String,
    pub paused: Option<String>,
}

#[derive(Debug, Clone)]
pub struct TortureEvent {
    pub execution: String,
    pub accept_no: i64,
    pub name: String,
    /// The key in the client's payload.
    pub key: Option<String>,
    pub status: String,
    pub seq: Option<i64>,
    pub timer_seq: Option<i64>,
    pub created_at: i64,
    pub attempts: i32,
}

#[derive(Debug, Clone)]
pub struct TortureTransition {
    pub seq: i64,
    pub event: Uuid,
    pub name: String,
    pub at: i64,
    pub entered: bool,
    pub timers: Vec<TortureTimer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TortureTimer {
    pub execution: String,
    pub armed_seq: i64,
    pub ordinal: i32,
    pub fire_at: i64,
}

#[derive(Debug, Clone)]
pub struct TortureAction {
    pub key: String,
    pub execution: String,
    pub name: String,
    pub status: String,
    pub attempts: i32,
    pub epoch: i64,
    /// The token of the call that gave the recorded result.
    pub result_token: Option<i64>,
}

impl TortureHistory {
    pub async fn read_database(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        let now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        Ok(Self {
            executions: read_executions(connection).await?,
            events: read_events(connection).await?,
            transitions: read_transitions(connection).await?,
            actions: read_actions(connection).await?,
            timers: read_timers(connection).await?,
            now: sqlx::query_scalar(now).fetch_one(connection).await?,
        })
    }
}

async fn read_executions(
    connection: &mut PgConnection,
) -> Result<BTreeMap<String, TortureExecution>, sqlx::Error> {
    const READ: &str = "SELECT execution_id, definition, seq, state, phase, paused_reason FROM executions";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let execution = TortureExecution {
                definition: row.try_get("definition")?,
                seq: row.try_get("seq")?,
                state: row.try_get("state")?,
                phase: row.try_get("phase")?,
                paused: row.try_get("paused_reason")?,
            };
            Ok((row.try_get("execution_id")?, execution))
        })
        .collect()
}

async fn read_events(connection: &mut PgConnection) -> Result<BTreeMap<Uuid, TortureEvent>, sqlx::Error> {
    const READ: &str = "
SELECT event_id, execution_id, accept_no, name, payload, status, seq, timer_seq, created_at, attempts
FROM event_records";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let payload: Value = serde_json::from_str(row.try_get("payload")?).unwrap_or(Value::Null);
            let event = TortureEvent {
                execution: row.try_get("execution_id")?,
                accept_no: row.try_get("accept_no")?,
                name: row.try_get("name")?,
                key: payload["key"].as_str().map(str::to_owned),
                status: row.try_get("status")?,
                seq: row.try_get("seq")?,
                timer_seq: row.try_get("timer_seq")?,
                created_at: row.try_get("created_at")?,
                attempts: row.try_get("attempts")?,
            };
            Ok((row.try_get("event_id")?, event))
        })
        .collect()
}

async fn read_transitions(
    connection: &mut PgConnection,
) -> Result<BTreeMap<String, Vec<TortureTransition>>, sqlx::Error> {
    const READ: &str =
        "SELECT execution_id, seq, event_id, name, at, decision FROM transitions ORDER BY execution_id, seq";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    let mut found: BTreeMap<String, Vec<TortureTransition>> = BTreeMap::new();
    for row in &rows {
        let execution: String = row.try_get("execution_id")?;
        let decision: Value = serde_json::from_str(row.try_get("decision")?).unwrap_or(Value::Null);
        let armed = decision["timers"].as_array().cloned().unwrap_or_default();
        let timer = |timer: &Value| TortureTimer {
            execution: execution.clone(),
            armed_seq: timer["armed_seq"].as_i64().unwrap_or(-1),
            ordinal: timer["ordinal"].as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or(-1),
            fire_at: parse_millis(&timer["fire_at"]),
        };
        let transition = TortureTransition {
            seq: row.try_get("seq")?,
            event: row.try_get("event_id")?,
            name: row.try_get("name")?,
            at: row.try_get("at")?,
            entered: decision["entered"] == "entered",
            timers: armed.iter().map(timer).collect(),
        };
        found.entry(execution).or_default().push(transition);
    }
    Ok(found)
}

/// A time in a decision: a number of milliseconds, or a text.
fn parse_millis(value: &Value) -> i64 {
    let text = || millstream_model::time::Timestamp::parse(value.as_str()?).ok();
    value.as_i64().or_else(|| Some(text()?.as_millis())).unwrap_or(i64::MAX)
}

async fn read_actions(connection: &mut PgConnection) -> Result<Vec<TortureAction>, sqlx::Error> {
    const READ: &str = "
SELECT tenant || '/' || execution_id || '/' || seq || '/' || action AS key, execution_id, action, status, attempts,
       epoch, result
FROM actions";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let result: Option<&str> = row.try_get("result")?;
            let result: Value =
                result.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
            Ok(TortureAction {
                key: row.try_get("key")?,
                execution: row.try_get("execution_id")?,
                name: row.try_get("action")?,
                status: row.try_get("status")?,
                attempts: row.try_get("attempts")?,
                epoch: row.try_get("epoch")?,
                result_token: result["body"]["token"].as_i64(),
            })
        })
        .collect()
}

async fn read_timers(connection: &mut PgConnection) -> Result<Vec<TortureTimer>, sqlx::Error> {
    let rows = sqlx::query("SELECT execution_id, armed_seq, ordinal, fire_at FROM timers")
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(TortureTimer {
                execution: row.try_get("execution_id")?,
                armed_seq: row.try_get("armed_seq")?,
                ordinal: row.try_get("ordinal")?,
                fire_at: row.try_get("fire_at")?,
            })
        })
        .collect()
}
