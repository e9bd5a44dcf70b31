-- Quotas of tenants, and what is counted for them.
--
-- The same tables, columns, order and names as migrations/sqlite/0012_quotas.sql.

-- What was set for a tenant over the API; it wins over the settings of every process.
CREATE TABLE tenant_quotas (
    tenant      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    quota       TEXT   NOT NULL, -- JSON object: values by name
    updated_at  BIGINT NOT NULL
);

-- Raised by every change of a quota, in the same transaction: a process that has read this revision knows all rows.
CREATE TABLE quota_revision (
    one         BOOLEAN NOT NULL PRIMARY KEY CHECK (one),
    revision    BIGINT  NOT NULL
);
INSERT INTO quota_revision (one, revision) VALUES (TRUE, 1);

-- What is open, for counting by tenant from the index alone. The expression comes first, so that no other statement
-- takes these indexes for its rows (see executions_position); only an end changes ended_at.
CREATE INDEX executions_open ON executions ((tenant || ''), tenant) WHERE ended_at IS NULL;
CREATE INDEX items_open ON items ((tenant || ''), tenant) WHERE ended_at IS NULL;
-- Tasks that external workers hold: only their actions have attempt_ms.
CREATE INDEX actions_lent_by_tenant ON actions ((tenant || ''), tenant)
    WHERE status = 'leased' AND attempt_ms IS NOT NULL;
