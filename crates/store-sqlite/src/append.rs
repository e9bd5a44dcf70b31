//! The verdicts of one append: what the tables and the earlier items of the batch say about each item.
//!
//! Everything is read once, before anything is written; accepted items are added to what is known, so
//! that later items of the batch see them. Nothing in here writes.

use std::collections::HashMap;

use millstream_core::id::{EventId, ExecutionKey, TenantId};
use millstream_core::status::EventStatus;
use millstream_store::Result;
use millstream_store::event_log::{Append, Appended, Idempotency, NewEvent, NewExecution};
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, EventParam, ExecutionParam};

/// What a batch may run into.
#[derive(Debug, Default)]
pub(crate) struct Known {
    events: HashMap<(TenantId, EventId), EventStatus>,
    keys: HashMap<(TenantId, String), Holder>,
    executions: HashMap<ExecutionKey, Holder>,
}

/// The event behind an idempotency key or an execution id, with the hash of what it stands for.
#[derive(Debug)]
struct Holder {
    hash: String,
    event_id: EventId,
    status: EventStatus,
}

impl Holder {
    fn repeat_of(&self, hash: &str) -> Appended {
        if self.hash == hash {
            Appended::Repeat { event_id: self.event_id, status: self.status }
        } else {
            Appended::Mismatch
        }
    }
}

impl Known {
    pub(crate) async fn read(connection: &mut SqliteConnection, batch: &[Append]) -> Result<Self> {
        let mut known = Known::default();
        read_events(connection, batch, &mut known).await?;
        let keyed = batch.iter().map(first_event);
        let keyed = keyed.filter_map(|event| Some((&event.execution.tenant, event.idempotency.as_ref()?)));
        read_keys(connection, keyed, &mut known).await?;
        read_executions(connection, batch, &mut known).await?;
        Ok(known)
    }

    /// Only what these keys stand for.
    pub(crate) async fn of_keys(
        connection: &mut SqliteConnection,
        keys: &[(TenantId, Idempotency)],
    ) -> Result<Self> {
        let mut known = Known::default();
        read_keys(connection, keys.iter().map(|(tenant, key)| (tenant, key)), &mut known).await?;
        Ok(known)
    }

    /// `None`: accepted, and known from now on.
    pub(crate) fn judge(&mut self, item: &Append) -> Option<Appended> {
        match item {
            Append::Start(execution) => self.judge_start(execution),
            Append::Event(event) => self.judge_event(event),
        }
    }

    fn judge_start(&mut self, new: &NewExecution) -> Option<Appended> {
        let hash = param::hex(&new.input_hash);
        if let Some(repeat) = self.seen(&new.start) {
            return Some(repeat);
        }
        if let Some(execution) = self.executions.get(&new.key) {
            return Some(execution.repeat_of(&hash));
        }
        let (event_id, status) = (new.start.event_id, EventStatus::Completed);
        self.executions.insert(new.key.clone(), Holder { hash, event_id, status });
        self.remember(&new.start, status);
        for event in &new.events {
            self.events.insert((new.key.tenant.clone(), event.event_id), EventStatus::Pending);
        }
        None
    }

    fn judge_event(&mut self, event: &NewEvent) -> Option<Appended> {
        if let Some(repeat) = self.seen(event) {
            return Some(repeat);
        }
        if !self.executions.contains_key(&event.execution) {
            return Some(Appended::NoExecution);
        }
        self.remember(event, EventStatus::Pending);
        None
    }

    fn remember(&mut self, event: &NewEvent, status: EventStatus) {
        let (tenant, event_id) = (&event.execution.tenant, event.event_id);
        if let Some(idempotency) = &event.idempotency {
            let holder = Holder { hash: param::hex(&idempotency.request_hash), event_id, status };
            self.keys.insert((tenant.clone(), idempotency.key.clone()), holder);
        }
        self.events.insert((tenant.clone(), event_id), status);
    }

    /// By its id, when the batch is sent a second time after its outcome was in doubt; or by its key.
    fn seen(&self, event: &NewEvent) -> Option<Appended> {
        let tenant = &event.execution.tenant;
        if let Some(status) = self.events.get(&(tenant.clone(), event.event_id)) {
            return Some(Appended::Repeat { event_id: event.event_id, status: *status });
        }
        self.by_key(tenant, event.idempotency.as_ref()?)
    }

    /// What a key stands for.
    pub(crate) fn by_key(&self, tenant: &TenantId, idempotency: &Idempotency) -> Option<Appended> {
        let holder = self.keys.get(&(tenant.clone(), idempotency.key.clone()))?;
        Some(holder.repeat_of(&param::hex(&idempotency.request_hash)))
    }
}

/// The event that an item is known by: the one whose id and key are judged.
pub(crate) fn first_event(item: &Append) -> &NewEvent {
    match item {
        Append::Start(new) => &new.start,
        Append::Event(event) => event,
    }
}

async fn read_events(connection: &mut SqliteConnection, batch: &[Append], known: &mut Known) -> Result<()> {
    const READ_EVENTS: &str = "
        SELECT e.tenant, e.event_id, e.status
        FROM json_each(?1) AS i
        CROSS JOIN events AS e ON e.tenant = i.value ->> 'tenant' AND e.event_id = i.value ->> 'event'";
    let ids = batch.iter().map(|item| match item {
        Append::Start(new) => EventParam::of(&new.key.tenant, new.start.event_id),
        Append::Event(event) => EventParam::of(&event.execution.tenant, event.event_id),
    });
    let rows =
        sqlx::query(READ_EVENTS).bind(param::rows(ids)?).fetch_all(connection).await.map_err(store_error)?;
    for row in rows.iter().map(Fields) {
        known
            .events
            .insert((row.id("tenant")?, row.event_id("event_id")?), row.word("status", EventStatus::parse)?);
    }
    Ok(())
}

async fn read_keys(
    connection: &mut SqliteConnection,
    keys: impl IntoIterator<Item = (&TenantId, &Idempotency)>,
    known: &mut Known,
) -> Result<()> {
    const READ_KEYS: &str = "
        SELECT k.tenant, k.key, k.request_hash, k.event_id, coalesce(e.status, 'completed') AS status
        FROM json_each(?1) AS i
        CROSS JOIN idempotency_keys AS k ON k.tenant = i.value ->> 'tenant' AND k.key = i.value ->> 'key'
        LEFT JOIN events AS e ON e.tenant = k.tenant AND e.event_id = k.event_id";
    #[derive(Serialize)]
    struct Key<'a> {
        tenant: &'a str,
        key: &'a str,
    }
    let keys: Vec<_> = keys
        .into_iter()
        .map(|(tenant, idempotency)| Key { tenant: tenant.as_str(), key: &idempotency.key })
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    let rows =
        sqlx::query(READ_KEYS).bind(param::rows(keys)?).fetch_all(connection).await.map_err(store_error)?;
    for row in rows.iter().map(Fields) {
        let holder = Holder {
            hash: row.text("request_hash")?.to_owned(),
            event_id: row.event_id("event_id")?,
            status: row.word("status", EventStatus::parse)?,
        };
        known.keys.insert((row.id("tenant")?, row.text("key")?.to_owned()), holder);
    }
    Ok(())
}

async fn read_executions(
    connection: &mut SqliteConnection,
    batch: &[Append],
    known: &mut Known,
) -> Result<()> {
    const READ_EXECUTIONS: &str = "
        SELECT x.tenant, x.execution_id, x.input_hash, e.event_id, e.status
        FROM json_each(?1) AS i
        CROSS JOIN executions AS x
            ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'
        JOIN events AS e ON e.accept_no = x.position";
    let keys = batch.iter().map(|item| match item {
        Append::Start(new) => ExecutionParam::of(&new.key),
        Append::Event(event) => ExecutionParam::of(&event.execution),
    });
    let rows = sqlx::query(READ_EXECUTIONS)
        .bind(param::rows(keys)?)
        .fetch_all(connection)
        .await
        .map_err(store_error)?;
    for row in rows.iter().map(Fields) {
        let holder = Holder {
            hash: row.text("input_hash")?.to_owned(),
            event_id: row.event_id("event_id")?,
            status: row.word("status", EventStatus::parse)?,
        };
        known.executions.insert(row.execution()?, holder);
    }
    Ok(())
}
