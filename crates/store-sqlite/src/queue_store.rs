//! Queues of people's work, and the people.

use std::collections::BTreeSet;

use millstream_model::id::{Name, PersonId, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{QueueConfig, QueueState};
use millstream_store::StoreResult;
use millstream_store::queue_store::{PeopleStore, PutQueue, QueueStore, QueueView};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::param;

#[async_trait::async_trait]
impl QueueStore for SqliteStore {
    async fn put_queue(
        &self,
        tenant: &TenantId,
        queue: &QueueConfig,
        now: Timestamp,
    ) -> StoreResult<PutQueue> {
        const PUT: &str = "
            INSERT INTO queues (tenant, queue, config, state, created_at, updated_at)
            VALUES (?1, ?2, ?3, 'active', ?4, ?4)
            ON CONFLICT (tenant, queue) DO UPDATE SET config = excluded.config, updated_at = excluded.updated_at";
        let (tenant, queue) = (tenant.clone(), queue.clone());
        self.write_transaction(move |connection| {
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
    ) -> StoreResult<bool> {
        const SET: &str = "UPDATE queues SET state = ?3, updated_at = ?4 WHERE tenant = ?1 AND queue = ?2";
        let (tenant, queue) = (tenant.clone(), queue.clone());
        self.write_transaction(move |connection| {
            let row = (tenant.as_str(), queue.as_str(), state.as_str(), now.as_millis());
            Ok(connection.prepare_cached(SET)?.execute(row)? > 0)
        })
        .await
    }

    async fn find_queues(&self, keys: &[(TenantId, Name)]) -> StoreResult<Vec<Option<QueueView>>> {
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            keys.iter().map(|(tenant, queue)| read_queue(connection, tenant, queue)).collect()
        })
        .await
    }

    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<QueueView>> {
        let (tenant, after) = (tenant.clone(), after.map_or_else(String::new, ToString::to_string));
        self.read_transaction(move |connection| read_queues(connection, &tenant, &after, limit)).await
    }
}

pub(crate) fn read_queue(
    connection: &Connection,
    tenant: &TenantId,
    queue: &Name,
) -> SqliteResult<Option<QueueView>> {
    const READ: &str = "SELECT * FROM queues WHERE tenant = ?1 AND queue = ?2";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((tenant.as_str(), queue.as_str()))?;
    rows.next()?.map(|row| queue_view(SqliteFields(row))).transpose()
}

/// By name, after `after`.
pub(crate) fn read_queues(
    connection: &Connection,
    tenant: &TenantId,
    after: &str,
    limit: usize,
) -> SqliteResult<Vec<QueueView>> {
    const LIST: &str = "SELECT * FROM queues WHERE tenant = ?1 AND queue > ?2 ORDER BY queue LIMIT ?3";
    let mut list = connection.prepare_cached(LIST)?;
    let mut rows = list.query((tenant.as_str(), after, param::limit(limit)))?;
    let mut views = Vec::new();
    while let Some(row) = rows.next()? {
        views.push(queue_view(SqliteFields(row))?);
    }
    Ok(views)
}

fn queue_view(row: SqliteFields<'_>) -> SqliteResult<QueueView> {
    let config = QueueConfig::parse_stored(row.text("config")?).map_err(corrupt_row)?;
    Ok(QueueView {
        config,
        state: row.word("state", QueueState::parse)?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

#[async_trait::async_trait]
impl PeopleStore for SqliteStore {
    async fn put_people(
        &self,
        tenant: &TenantId,
        people: &[PersonProfile],
        now: Timestamp,
    ) -> StoreResult<()> {
        const PUT: &str = "
            INSERT INTO people (tenant, person, skills, state, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (tenant, person) DO UPDATE SET
                skills = excluded.skills, state = excluded.state, updated_at = excluded.updated_at";
        let (tenant, people) = (tenant.clone(), people.to_vec());
        self.write_transaction(move |connection| {
            let mut put = connection.prepare_cached(PUT)?;
            for profile in &people {
                let skills = RawJson::from_value(&profile.skills);
                let (person, state) = (profile.person.as_str(), profile.state.as_str());
                put.execute((tenant.as_str(), person, skills.as_str(), state, now.as_millis()))?;
            }
            Ok(())
        })
        .await
    }

    async fn find_people(&self, keys: &[(TenantId, PersonId)]) -> StoreResult<Vec<Option<PersonProfile>>> {
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            keys.iter().map(|(tenant, person)| read_person(connection, tenant, person)).collect()
        })
        .await
    }

    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> StoreResult<Vec<PersonProfile>> {
        const LIST: &str = "SELECT * FROM people WHERE tenant = ?1 AND person > ?2 ORDER BY person LIMIT ?3";
        let (tenant, after) = (tenant.clone(), after.map_or_else(String::new, ToString::to_string));
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(LIST)?;
            let mut rows = list.query((tenant.as_str(), &after, param::limit(limit)))?;
            let mut people = Vec::new();
            while let Some(row) = rows.next()? {
                people.push(decode_profile(SqliteFields(row))?);
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
) -> SqliteResult<Option<PersonProfile>> {
    const READ: &str = "SELECT * FROM people WHERE tenant = ?1 AND person = ?2";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((tenant.as_str(), person.as_str()))?;
    rows.next()?.map(|row| decode_profile(SqliteFields(row))).transpose()
}

fn decode_profile(row: SqliteFields<'_>) -> SqliteResult<PersonProfile> {
    let skills: BTreeSet<Name> = row.json("skills")?;
    Ok(PersonProfile { person: row.id("person")?, skills, state: row.word("state", QueueState::parse)? })
}
