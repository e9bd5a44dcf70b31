-- API keys: eight roles, expiry, last use, a binding to a person or device, who created them, rotation.
--
-- The same as migrations/postgres/0010_keys.sql; a check of a column is changed by making the table again.

ALTER TABLE api_keys RENAME TO api_keys_before;
DROP INDEX api_keys_live;

CREATE TABLE api_keys (
    hash         BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the key
    tenant       TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL CHECK (role IN
        ('admin', 'operator', 'submit', 'read', 'worker', 'executor', 'device', 'work')),
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER,
    expires_at   INTEGER,
    last_used_at INTEGER,
    bound_to     TEXT,
    created_by   TEXT,
    shown_name   TEXT
) STRICT;

INSERT INTO api_keys (hash, tenant, name, role, created_at, revoked_at)
SELECT hash, tenant, name, role, created_at, revoked_at FROM api_keys_before;
DROP TABLE api_keys_before;

CREATE UNIQUE INDEX api_keys_live ON api_keys (tenant, name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at);
