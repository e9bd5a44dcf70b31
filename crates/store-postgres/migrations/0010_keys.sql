-- API keys: eight roles, expiry, last use, a binding to a person or device, who created them, rotation.
--
-- Keys with the role 'operator' belong to no tenant; their tenant is the empty text. A key that was rotated is stored
-- under `name#id` and shown as `shown_name`, so that its successor has its name and one name has one current key.

ALTER TABLE api_keys
    DROP CONSTRAINT IF EXISTS api_keys_role_check,
    ADD CONSTRAINT api_keys_role_check CHECK (role IN
        ('admin', 'operator', 'submit', 'read', 'worker', 'executor', 'device', 'work')),
    ADD COLUMN expires_at   BIGINT,
    ADD COLUMN last_used_at BIGINT,
    ADD COLUMN bound_to     TEXT COLLATE "C",
    ADD COLUMN created_by   TEXT COLLATE "C",
    ADD COLUMN shown_name   TEXT COLLATE "C";

CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at);
