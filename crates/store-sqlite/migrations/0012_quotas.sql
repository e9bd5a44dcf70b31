-- Quotas of tenants, and what is counted for them.
--
-- The same tables, columns, order and names as migrations/postgres/0012_quotas.sql.

-- What was set for a tenant over the API; it wins over the settings of every process.
CREATE TABLE tenant_quotas (
    tenant      TEXT    NOT NULL PRIMARY KEY,
    quota       TEXT    NOT NULL, -- JSON object: values by name
    updated_at  INTEGER NOT NULL
) STRICT;

-- Raised by every change of a quota, in the same transaction: a process that has read this revision knows all rows.
CREATE TABLE quota_revision (
    one         INTEGER NOT NULL PRIMARY KEY CHECK (one),
    revision    INTEGER NOT NULL
) STRICT;
INSERT INTO quota_revision (one, revision) VALUES (1, 1);

-- What is open, for counting by tenant from the index alone. The expression comes first, and a condition that only the
-- statements which count have, so that no other statement takes these indexes for its rows; only an end changes ended_at.
CREATE INDEX executions_open ON executions ((tenant || ''), tenant) WHERE ended_at IS NULL AND tenant >= '';
CREATE INDEX items_open ON items ((tenant || ''), tenant) WHERE ended_at IS NULL AND tenant >= '';
-- Tasks that external workers hold: only their actions have attempt_ms.
CREATE INDEX actions_lent_by_tenant ON actions ((tenant || ''), tenant)
    WHERE status = 'leased' AND attempt_ms IS NOT NULL AND tenant >= '';
