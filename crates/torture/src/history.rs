//! Contents of the database, read after everything is quiet.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

#[derive(Debug, Clone, Default)]
pub struct History {
    pub executions: BTreeMap<String, Execution>,
    pub events: BTreeMap<Uuid, Event>,
    /// By execution, in the order of their seq.
    pub transitions: BTreeMap<String, Vec<Transition>>,
    pub actions: Vec<Action>,
    /// Armed and not fired yet.
    pub timers: Vec<Timer>,
    /// The database's time, in milliseconds.
    pub now: i64,
}

#[derive(Debug, Clone)]
pub struct Execution {
    pub definition: String,
    pub seq: i64,
    pub state: String,
    pub phase: String,
    pub paused: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Event {
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
pub struct Transition {
    pub seq: i64,
    pub event: Uuid,
    pub name: String,
    pub at: i64,
    pub entered: bool,
    pub timers: Vec<Timer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    pub execution: String,
    pub armed_seq: i64,
    pub ordinal: i32,
    pub fire_at: i64,
}

#[derive(Debug, Clone)]
pub struct Action {
    pub key: String,
    pub execution: String,
    pub name: String,
    pub status: String,
    pub attempts: i32,
    pub epoch: i64,
    /// The token of the call that gave the recorded result.
    pub result_token: Option<i64>,
}

impl History {
    pub async fn read(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        let now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        Ok(Self {
            executions: executions(connection).await?,
            events: events(connection).await?,
            transitions: transitions(connection).await?,
            actions: actions(connection).await?,
            timers: timers(connection).await?,
            now: sqlx::query_scalar(now).fetch_one(connection).await?,
        })
    }
}

async fn executions(connection: &mut PgConnection) -> Result<BTreeMap<String, Execution>, sqlx::Error> {
    const READ: &str = "SELECT execution_id, definition, seq, state, phase, paused_reason FROM executions";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let execution = Execution {
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

async fn events(connection: &mut PgConnection) -> Result<BTreeMap<Uuid, Event>, sqlx::Error> {
    const READ: &str = "
SELECT event_id, execution_id, accept_no, name, payload, status, seq, timer_seq, created_at, attempts
FROM event_records";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let payload: Value = serde_json::from_str(row.try_get("payload")?).unwrap_or(Value::Null);
            let event = Event {
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

async fn transitions(
    connection: &mut PgConnection,
) -> Result<BTreeMap<String, Vec<Transition>>, sqlx::Error> {
    const READ: &str =
        "SELECT execution_id, seq, event_id, name, at, decision FROM transitions ORDER BY execution_id, seq";
    let rows = sqlx::query(READ).fetch_all(connection).await?;
    let mut found: BTreeMap<String, Vec<Transition>> = BTreeMap::new();
    for row in &rows {
        let execution: String = row.try_get("execution_id")?;
        let decision: Value = serde_json::from_str(row.try_get("decision")?).unwrap_or(Value::Null);
        let armed = decision["timers"].as_array().cloned().unwrap_or_default();
        let timer = |timer: &Value| Timer {
            execution: execution.clone(),
            armed_seq: timer["armed_seq"].as_i64().unwrap_or(-1),
            ordinal: timer["ordinal"].as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or(-1),
            fire_at: time(&timer["fire_at"]),
        };
        let transition = Transition {
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
fn time(value: &Value) -> i64 {
    let text = || millstream_core::time::Timestamp::parse(value.as_str()?).ok();
    value.as_i64().or_else(|| Some(text()?.as_millis())).unwrap_or(i64::MAX)
}

async fn actions(connection: &mut PgConnection) -> Result<Vec<Action>, sqlx::Error> {
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
            Ok(Action {
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

async fn timers(connection: &mut PgConnection) -> Result<Vec<Timer>, sqlx::Error> {
    let rows = sqlx::query("SELECT execution_id, armed_seq, ordinal, fire_at FROM timers")
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Timer {
                execution: row.try_get("execution_id")?,
                armed_seq: row.try_get("armed_seq")?,
                ordinal: row.try_get("ordinal")?,
                fire_at: row.try_get("fire_at")?,
            })
        })
        .collect()
}
