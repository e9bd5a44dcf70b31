//! Queues of people's work, and the people.

use async_trait::async_trait;
use millstream_model::id::{Name, PersonId, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{QueueConfig, QueueState};
use millstream_store::StoreResult;
use millstream_store::queue_store::{PeopleStore, PutQueue, QueueStore, QueueView};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::queue_configs::QueueConfigCache;

#[async_trait]
impl QueueStore for PostgresStore {
    async fn put_queue(
        &self,
        tenant: &TenantId,
        queue: &QueueConfig,
        now: Timestamp,
    ) -> StoreResult<PutQueue> {
        const PUT: &str = "
INSERT INTO queues AS q (tenant, queue, config, state, created_at, updated_at)
VALUES ($1, $2, $3, 'active', $4, $4)
ON CONFLICT (tenant, queue) DO UPDATE SET config = excluded.config, updated_at = excluded.updated_at
WHERE q.config <> excluded.config
RETURNING (xmax = 0) AS created";
        let config = queue.to_json();
        self.with_retries(|| async {
            let row = sqlx::query(PUT)
                .bind(tenant.as_str())
                .bind(queue.name.as_str())
                .bind(config.as_str())
                .bind(now.as_millis())
                .fetch_optional(&self.pool)
                .await?;
            Ok(match row {
                None => PutQueue::Same,
                Some(row) if row.try_get("created")? => PutQueue::Created,
                Some(_) => PutQueue::Changed,
            })
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
        const SET: &str = "UPDATE queues SET state = $3, updated_at = $4 WHERE tenant = $1 AND queue = $2";
        self.with_retries(|| async {
            let done = sqlx::query(SET)
                .bind(tenant.as_str())
                .bind(queue.as_str())
                .bind(state.as_str())
                .bind(now.as_millis())
                .execute(&self.pool)
                .await?;
            Ok(done.rows_affected() > 0)
        })
        .await
    }

    async fn find_queues(&self, keys: &[(TenantId, Name)]) -> StoreResult<Vec<Option<QueueView>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let found = queue_views(&self.warm.fetch_rows(by_keys(keys)).await?, &self.configs)?;
            let of = |key: &(TenantId, Name)| {
                found.iter().find(|(tenant, view)| (tenant, &view.config.name) == (&key.0, &key.1))
            };
            Ok(keys.iter().map(|key| of(key).map(|(_, view)| view.clone())).collect())
        })
        .await
    }

    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<QueueView>> {
        self.without_retries(async {
            let mut connection = self.pool.acquire().await?;
            let found =
                list_queues(&mut connection, &self.configs, tenant, after.map_or("", Name::as_str), limit)
                    .await?;
            Ok(found.into_iter().map(|(_, view)| view).collect())
        })
        .await
    }
}

/// Existing ones, in no order.
pub(crate) async fn read_queues(
    connection: &mut PgConnection,
    configs: &QueueConfigCache,
    keys: &[(TenantId, Name)],
) -> PostgresResult<Vec<(TenantId, QueueView)>> {
    queue_views(&by_keys(keys).fetch_all(connection).await?, configs)
}

fn by_keys(keys: &[(TenantId, Name)]) -> Query<'_, Postgres, PgArguments> {
    const READ: &str = "
SELECT q.* FROM unnest($1::text[], $2::text[]) AS k(tenant, queue)
JOIN queues q ON q.tenant = k.tenant AND q.queue = k.queue";
    sqlx::query(READ)
        .bind(keys.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, queue)| queue.as_str()).collect::<Vec<_>>())
}

/// By name, after `after`.
pub(crate) async fn list_queues(
    connection: &mut PgConnection,
    configs: &QueueConfigCache,
    tenant: &TenantId,
    after: &str,
    limit: usize,
) -> PostgresResult<Vec<(TenantId, QueueView)>> {
    const LIST: &str = "SELECT * FROM queues WHERE tenant = $1 AND queue > $2 ORDER BY queue LIMIT $3";
    let rows = sqlx::query(LIST)
        .bind(tenant.as_str())
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    queue_views(&rows, configs)
}

fn queue_views(rows: &[PgRow], configs: &QueueConfigCache) -> PostgresResult<Vec<(TenantId, QueueView)>> {
    rows.iter().map(|row| queue_view(row, configs)).collect()
}

fn queue_view(row: &PgRow, configs: &QueueConfigCache) -> PostgresResult<(TenantId, QueueView)> {
    let view = QueueView {
        config: configs.parse_cached(row.try_get("config")?)?,
        state: decode::parsed(row, "state")?,
        created_at: decode::time(row, "created_at")?,
        updated_at: decode::time(row, "updated_at")?,
    };
    Ok((decode::parsed(row, "tenant")?, view))
}

#[async_trait]
impl PeopleStore for PostgresStore {
    async fn put_people(
        &self,
        tenant: &TenantId,
        people: &[PersonProfile],
        now: Timestamp,
    ) -> StoreResult<()> {
        const PUT: &str = "
INSERT INTO people (tenant, person, skills, state, updated_at)
SELECT DISTINCT ON (k.person COLLATE \"C\") $1, k.person, k.skills, k.state, $5
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS k(person, skills, state, ord)
ORDER BY k.person COLLATE \"C\", k.ord DESC
ON CONFLICT (tenant, person) DO UPDATE SET
    skills = excluded.skills, state = excluded.state, updated_at = excluded.updated_at";
        if people.is_empty() {
            return Ok(());
        }
        let skills: Vec<String> =
            people.iter().map(|profile| RawJson::from_value(&profile.skills).as_str().to_owned()).collect();
        self.with_retries(|| async {
            sqlx::query(PUT)
                .bind(tenant.as_str())
                .bind(people.iter().map(|profile| profile.person.as_str()).collect::<Vec<_>>())
                .bind(&skills)
                .bind(people.iter().map(|profile| profile.state.as_str()).collect::<Vec<_>>())
                .bind(now.as_millis())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    async fn find_people(&self, keys: &[(TenantId, PersonId)]) -> StoreResult<Vec<Option<PersonProfile>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let mut connection = self.pool.acquire().await?;
            let found = read_people(&mut connection, keys).await?;
            let of = |key: &(TenantId, PersonId)| {
                found.iter().find(|(tenant, profile)| (tenant, &profile.person) == (&key.0, &key.1))
            };
            Ok(keys.iter().map(|key| of(key).map(|(_, profile)| profile.clone())).collect())
        })
        .await
    }

    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> StoreResult<Vec<PersonProfile>> {
        const LIST: &str = "SELECT * FROM people WHERE tenant = $1 AND person > $2 ORDER BY person LIMIT $3";
        self.without_retries(async {
            let rows = sqlx::query(LIST)
                .bind(tenant.as_str())
                .bind(after.map_or("", PersonId::as_str))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(|row| Ok(decode_profile(row)?.1)).collect()
        })
        .await
    }
}

/// Existing profiles, in no order.
async fn read_people(
    connection: &mut PgConnection,
    keys: &[(TenantId, PersonId)],
) -> PostgresResult<Vec<(TenantId, PersonProfile)>> {
    const READ: &str = "
SELECT p.* FROM unnest($1::text[], $2::text[]) AS k(tenant, person)
JOIN people p ON p.tenant = k.tenant AND p.person = k.person";
    let rows = sqlx::query(READ)
        .bind(keys.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, person)| person.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    rows.iter().map(decode_profile).collect()
}

fn decode_profile(row: &PgRow) -> PostgresResult<(TenantId, PersonProfile)> {
    let profile = PersonProfile {
        person: decode::parsed(row, "person")?,
        skills: decode::list(row, "skills")?,
        state: decode::parsed(row, "state")?,
    };
    Ok((decode::parsed(row, "tenant")?, profile))
}
