-- The spine: everything that happens to an execution, and everything the world must still do for it.
--
-- The same tables, columns, order and names as migrations/postgres/0001_spine.sql.
-- Times are milliseconds since the Unix epoch. Statuses are the words of millstream_core::status.
-- Payloads, decisions, snapshots, inputs, results and errors of actions are JSON kept as text: the
-- bytes that came in are the bytes that come out. Ids are text (UUIDs with hyphens, lower case),
-- hashes are text (hexadecimal, lower case).
-- No foreign keys: on PostgreSQL their checks take locks that deadlock, and here the two must behave
-- alike. Retention removes the rows of an execution together. Every key begins with the tenant.

CREATE TABLE tenants (
    tenant      TEXT    NOT NULL PRIMARY KEY,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    hash        TEXT    NOT NULL PRIMARY KEY, -- SHA-256 of the key
    tenant      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    role        TEXT    NOT NULL CHECK (role IN ('submit', 'read', 'admin')),
    created_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT;

-- A name may be used again once its key is revoked.
CREATE UNIQUE INDEX api_keys_live ON api_keys (tenant, name) WHERE revoked_at IS NULL;

CREATE TABLE definitions (
    tenant      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    dialect     INTEGER NOT NULL,
    source      TEXT    NOT NULL, -- canonical JSON
    checksum    TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, version)
) STRICT;

CREATE TABLE executions (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    definition    TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    input_hash    TEXT    NOT NULL,
    position      INTEGER NOT NULL, -- accept_no of its start event: the order of lists
    seq           INTEGER NOT NULL, -- the fence
    state         TEXT    NOT NULL,
    phase         TEXT    NOT NULL CHECK (phase IN ('active', 'completed', 'failed', 'cancelled')),
    paused_reason TEXT,             -- not null: paused
    snapshot      TEXT    NOT NULL, -- the state at snapshot_seq
    snapshot_seq  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL, -- of the last transition
    ended_at      INTEGER,          -- of the transition that ended it
    PRIMARY KEY (tenant, execution_id)
) STRICT;

CREATE INDEX executions_position ON executions (tenant, position);
CREATE INDEX executions_ended ON executions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX executions_paused ON executions (tenant, position) WHERE paused_reason IS NOT NULL;

-- The one sequence of acceptance. A row and not AUTOINCREMENT: a batch takes its numbers in one step,
-- in its own order, and a number is never used again.
CREATE TABLE accept_no (
    only        INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    last        INTEGER NOT NULL
) STRICT;

INSERT INTO accept_no (only, last) VALUES (1, 0);

-- An accepted event and the record of its processing. A row that is pending is the doorbell.
CREATE TABLE events (
    tenant        TEXT    NOT NULL,
    event_id      TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    accept_no     INTEGER NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    payload       TEXT    NOT NULL,
    timer_seq     INTEGER,          -- of a timer: the seq of the entry that armed it
    actor         TEXT,
    traceparent   TEXT,
    status        TEXT    NOT NULL CHECK (status IN
        ('pending', 'deferred', 'processing', 'completed', 'rejected', 'failed', 'dead')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    worker_id     TEXT,
    error         TEXT,
    from_state    TEXT,
    to_state      TEXT,
    seq           INTEGER,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,          -- when its transition was committed
    completed_at  INTEGER,          -- when it became final
    UNIQUE (tenant, event_id)
) STRICT;

-- With the status in it: the deferred ones are found without walking a backlog of pending ones.
CREATE INDEX events_mailbox ON events (tenant, execution_id, status, accept_no)
    WHERE status IN ('pending', 'deferred');
CREATE INDEX events_list ON events (tenant, execution_id, accept_no);
CREATE INDEX events_accepted ON events (tenant, accept_no);
-- Dead and failed events are few and looked for by status alone.
CREATE INDEX events_stuck ON events (tenant, status, accept_no) WHERE status IN ('failed', 'dead');

CREATE TABLE transitions (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    event_id      TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    at            INTEGER NOT NULL,
    decision      TEXT    NOT NULL,
    PRIMARY KEY (tenant, execution_id, seq)
) STRICT;

CREATE TABLE actions (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    action        TEXT    NOT NULL,
    event_id      TEXT    NOT NULL,
    ordinal       INTEGER NOT NULL,
    needs         TEXT    NOT NULL, -- JSON array of names
    status        TEXT    NOT NULL CHECK (status IN
        ('waiting', 'ready', 'leased', 'succeeded', 'failed', 'skipped', 'cancelled')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    epoch         INTEGER NOT NULL DEFAULT 0, -- the fence
    worker_id     TEXT,
    due_at        INTEGER,          -- ready: the next attempt; leased: the end of the lease
    input         TEXT,
    scope         TEXT,
    result        TEXT,
    error         TEXT,
    handled       INTEGER NOT NULL DEFAULT 0, -- failed: whether an event of the definition answers it
    created_at    INTEGER NOT NULL,
    settled_at    INTEGER,
    PRIMARY KEY (tenant, execution_id, seq, action)
) STRICT;

CREATE INDEX actions_due ON actions (due_at) WHERE status IN ('ready', 'leased');
CREATE INDEX actions_waiting ON actions (tenant, execution_id) WHERE status = 'waiting';

CREATE TABLE timers (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    armed_seq     INTEGER NOT NULL, -- 0: the execution's own timeout
    ordinal       INTEGER NOT NULL,
    fire_at       INTEGER NOT NULL,
    send          TEXT    NOT NULL,
    PRIMARY KEY (tenant, execution_id, armed_seq, ordinal)
) STRICT;

CREATE INDEX timers_due ON timers (fire_at);

CREATE TABLE idempotency_keys (
    tenant        TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    request_hash  TEXT    NOT NULL,
    event_id      TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- What people and the poison rule decided about work that was stuck.
CREATE TABLE decisions (
    id            INTEGER NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    event_id      TEXT,
    kind          TEXT    NOT NULL CHECK (kind IN ('bury', 'pause', 'retry')),
    actor         TEXT,
    reason        TEXT,
    at            INTEGER NOT NULL
) STRICT;

CREATE INDEX decisions_execution ON decisions (tenant, execution_id, id);

CREATE TABLE workers (
    worker_id     TEXT    NOT NULL PRIMARY KEY,
    started_at    INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    lanes         TEXT    NOT NULL, -- JSON array of numbers
    in_flight     INTEGER NOT NULL,
    version       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE duties (
    duty          TEXT    NOT NULL PRIMARY KEY,
    holder        TEXT,
    held_until    INTEGER NOT NULL,
    done_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What `migrate --finish` moves forward once every role runs the new build.
CREATE TABLE settings (
    key           TEXT    NOT NULL PRIMARY KEY,
    value         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO settings (key, value) VALUES ('format', '1');
