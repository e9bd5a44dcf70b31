//! Queues of people's work, and the people.

use std::collections::BTreeSet;

use millstream_core::assignment::next::Profile;
use millstream_core::assignment::{QueueConfig, QueueState};
use millstream_core::definition::Format;
use millstream_core::id::{Name, PersonId, TenantId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::queue_store::{PeopleStore, PutQueue, QueueStore, QueueView};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::{Attempt, corrupt};
use crate::param;

#[async_trait::async_trait]
impl QueueStore for SqliteStore {
    async fn put_queue(&self, tenant: &TenantId, queue: &QueueConfig, now: Timestamp) -> Result<PutQueue> {
        const PUT: &str = "
            INSERT INTO queues (tenant, queue, config, state, created_at, updated_at)
            VALUES (?1, ?2, ?3, 'active', ?4, ?4)
            ON CONFLICT (tenant, queue) DO UPDATE SET config = excluded.config, updated_at = excluded.updated_at";
        let (tenant, queue) = (tenant.clone(), queue.clone());
        self.write(move |connection| {
            let put = match read_queue(connection, &tenant, &queue.name)? {
                None => PutQueue::Created,
                Some(there) if there.config == queue => return Ok(PutQueue::Same),
                Some(_) => PutQueue::Changed,
            };
            let config = queue.to_json();
            let row = (tenant.as_str(), queue.name.as_str(), config.as_str(), now.as_millis());
            connection.prepare_cached(PUT)?.execute(row)?;
            Ok(put)
        })
        .await
    }

    async fn set_queue_state(
        &self,
        tenant: &TenantId,
        queue: &Name,
        state: QueueState,
        now: Timestamp,
    ) -> Result<bool> {
        const SET: &str = "UPDATE queues SET state = ?3, updated_at = ?4 WHERE tenant = ?1 AND queue = ?2";
        let (tenant, queue) = (tenant.clone(), queue.clone());
        self.write(move |connection| {
            let row = (tenant.as_str(), queue.as_str(), state.as_str(), now.as_millis());
            Ok(connection.prepare_cached(SET)?.execute(row)? > 0)
        })
        .await
    }

    async fn queues(&self, keys: &[(TenantId, Name)]) -> Result<Vec<Option<QueueView>>> {
        let keys = keys.to_vec();
        self.read(move |connection| {
            keys.iter().map(|(tenant, queue)| read_queue(connection, tenant, queue)).collect()
        })
        .await
    }

    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<QueueView>> {
        let (tenant, after) = (tenant.clone(), after.map_or_else(String::new, ToString::to_string));
        self.read(move |connection| read_queues(connection, &tenant, &after, limit)).await
    }
}

pub(crate) fn read_queue(
    connection: &Connection,
    tenant: &TenantId,
    queue: &Name,
) -> Attempt<Option<QueueView>> {
    const READ: &str = "SELECT * FROM queues WHERE tenant = ?1 AND queue = ?2";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((tenant.as_str(), queue.as_str()))?;
    rows.next()?.map(|row| queue_view(Fields(row))).transpose()
}

/// By name, after `after`.
pub(crate) fn read_queues(
    connection: &Connection,
    tenant: &TenantId,
    after: &str,
    limit: usize,
) -> Attempt<Vec<QueueView>> {
    const LIST: &str = "SELECT * FROM queues WHERE tenant = ?1 AND queue > ?2 ORDER BY queue LIMIT ?3";
    let mut list = connection.prepare_cached(LIST)?;
    let mut rows = list.query((tenant.as_str(), after, param::limit(limit)))?;
    let mut views = Vec::new();
    while let Some(row) = rows.next()? {
        views.push(queue_view(Fields(row))?);
    }
    Ok(views)
}

fn queue_view(row: Fields<'_>) -> Attempt<QueueView> {
    let config = QueueConfig::parse(row.text("config")?, Format::Json).map_err(corrupt)?;
    Ok(QueueView {
        config,
        state: row.word("state", QueueState::parse)?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

#[async_trait::async_trait]
impl PeopleStore for SqliteStore {
    async fn put_people(&self, tenant: &TenantId, people: &[Profile], now: Timestamp) -> Result<()> {
        const PUT: &str = "
            INSERT INTO people (tenant, person, skills, state, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (tenant, person) DO UPDATE SET
                skills = excluded.skills, state = excluded.state, updated_at = excluded.updated_at";
        let (tenant, people) = (tenant.clone(), people.to_vec());
        self.write(move |connection| {
            let mut put = connection.prepare_cached(PUT)?;
            for profile in &people {
                let skills = RawJson::of(&profile.skills);
                let (person, state) = (profile.person.as_str(), profile.state.as_str());
                put.execute((tenant.as_str(), person, skills.as_str(), state, now.as_millis()))?;
            }
            Ok(())
        })
        .await
    }

    async fn people(&self, keys: &[(TenantId, PersonId)]) -> Result<Vec<Option<Profile>>> {
        let keys = keys.to_vec();
        self.read(move |connection| {
            keys.iter().map(|(tenant, person)| read_person(connection, tenant, person)).collect()
        })
        .await
    }

    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> Result<Vec<Profile>> {
        const LIST: &str = "SELECT * FROM people WHERE tenant = ?1 AND person > ?2 ORDER BY person LIMIT ?3";
        let (tenant, after) = (tenant.clone(), after.map_or_else(String::new, ToString::to_string));
        self.read(move |connection| {
            let mut list = connection.prepare_cached(LIST)?;
            let mut rows = list.query((tenant.as_str(), &after, param::limit(limit)))?;
            let mut people = Vec::new();
            while let Some(row) = rows.next()? {
                people.push(profile(Fields(row))?);
            }
            Ok(people)
        })
        .await
    }
}

pub(crate) fn read_person(
    connection: &Connection,
    tenant: &TenantId,
    person: &PersonId,
) -> Attempt<Option<Profile>> {
    const READ: &str = "SELECT * FROM people WHERE tenant = ?1 AND person = ?2";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((tenant.as_str(), person.as_str()))?;
    rows.next()?.map(|row| profile(Fields(row))).transpose()
}

fn profile(row: Fields<'_>) -> Attempt<Profile> {
    let skills: BTreeSet<Name> = row.json("skills")?;
    Ok(Profile { person: row.id("person")?, skills, state: row.word("state", QueueState::parse)? })
}
