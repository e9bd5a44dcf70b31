-- The spine: everything that happens to an execution, and everything the world must still do for it.
--
-- The same tables, columns, order and names as migrations/sqlite/0001_spine.sql.
-- Times are milliseconds since the Unix epoch. Statuses are the words of millstream_core::status.
-- Payloads, decisions, snapshots, inputs, results and errors of actions are JSON kept as text, never
-- jsonb: the bytes that came in are the bytes that come out, and jsonb refuses \u0000.
-- Text that is part of a key collates "C": the order of the bytes is the order of locks, here and in
-- the program, whatever the locale of the database.
-- No foreign keys: their checks take locks that deadlock. Retention removes the rows of an execution
-- together. Every key begins with the tenant.

CREATE TABLE tenants (
    tenant      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL
);

CREATE TABLE api_keys (
    hash        BYTEA  NOT NULL PRIMARY KEY, -- SHA-256 of the key
    tenant      TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    role        TEXT   NOT NULL CHECK (role IN ('submit', 'read', 'admin')),
    created_at  BIGINT NOT NULL,
    revoked_at  BIGINT
);

-- A name may be used again once its key is revoked.
CREATE UNIQUE INDEX api_keys_live ON api_keys (tenant, name) WHERE revoked_at IS NULL;

CREATE TABLE definitions (
    tenant      TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    version     INTEGER NOT NULL,
    dialect     INTEGER NOT NULL,
    source      TEXT    NOT NULL, -- canonical JSON
    checksum    TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    PRIMARY KEY (tenant, name, version)
);

-- Every commit updates its execution's row: half of each page is kept free for the next version.
CREATE TABLE executions (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    definition    TEXT COLLATE "C" NOT NULL,
    version       INTEGER NOT NULL,
    input_hash    BYTEA   NOT NULL,
    position      BIGINT  NOT NULL, -- accept_no of its start event: the order of lists
    seq           BIGINT  NOT NULL, -- the fence
    state         TEXT COLLATE "C" NOT NULL,
    phase         TEXT    NOT NULL CHECK (phase IN ('active', 'completed', 'failed', 'cancelled')),
    paused_reason TEXT,             -- not null: paused
    snapshot      TEXT    NOT NULL, -- the state at snapshot_seq
    snapshot_seq  BIGINT  NOT NULL,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL, -- of the last transition
    ended_at      BIGINT,           -- of the transition that ended it
    PRIMARY KEY (tenant, execution_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- For lists. The tenant is an expression: an index that can be asked for a tenant alone is taken, as long
-- as there are no statistics, for looking up single rows by their key, and then reads all of a tenant's.
CREATE INDEX executions_position ON executions ((tenant || ''), position);
-- Keys and conditions of these two must not be columns that every commit changes, or no update stays
-- within its page: that is why retention goes by ended_at and not by updated_at.
CREATE INDEX executions_ended ON executions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX executions_paused ON executions (tenant, position) WHERE paused_reason IS NOT NULL;

-- The one sequence of acceptance. No cache: a number taken later is a larger number.
CREATE SEQUENCE accept_no AS BIGINT CACHE 1;

-- An accepted event and the record of its processing. A row that is pending is the doorbell.
CREATE TABLE events (
    tenant        TEXT COLLATE "C" NOT NULL,
    event_id      UUID    NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    accept_no     BIGINT  NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    payload       TEXT    NOT NULL,
    timer_seq     BIGINT,           -- of a timer: the seq of the entry that armed it
    actor         TEXT,
    traceparent   TEXT,
    status        TEXT COLLATE "C" NOT NULL CHECK (status IN
        ('pending', 'deferred', 'processing', 'completed', 'rejected', 'failed', 'dead')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    worker_id     TEXT,
    error         TEXT,
    from_state    TEXT,
    to_state      TEXT,
    seq           BIGINT,
    created_at    BIGINT  NOT NULL,
    started_at    BIGINT,           -- when its transition was committed
    completed_at  BIGINT,           -- when it became final
    PRIMARY KEY (tenant, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- The key is an expression on purpose: with the plain column, a planner whose statistics are from before
-- a burst reads a mailbox by way of events_list, that is by way of the execution's whole history. The status
-- is in it so that deferred events are found without reading past all the undecided ones.
CREATE INDEX events_mailbox
    ON events (tenant, (CASE WHEN status IN ('pending', 'deferred') THEN execution_id END), status, accept_no)
    WHERE status IN ('pending', 'deferred');
CREATE INDEX events_list ON events (tenant, execution_id, accept_no);
-- For lists over all executions. Expressions again: an index that yields the plain order of acceptance
-- would be taken for a mailbox's "the first ones in order" and read everybody's events, and one that can be
-- asked for a tenant alone for looking up single events (see executions_position).
CREATE INDEX events_accepted ON events ((tenant || ''), (accept_no + 0));
-- Dead and failed events are few and looked for by status alone.
CREATE INDEX events_stuck ON events (tenant, status, accept_no) WHERE status IN ('failed', 'dead');

CREATE TABLE transitions (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    seq           BIGINT  NOT NULL,
    event_id      UUID    NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    at            BIGINT  NOT NULL,
    decision      TEXT    NOT NULL,
    PRIMARY KEY (tenant, execution_id, seq)
);

CREATE TABLE actions (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    seq           BIGINT  NOT NULL,
    action        TEXT COLLATE "C" NOT NULL,
    event_id      UUID    NOT NULL,
    ordinal       INTEGER NOT NULL,
    needs         TEXT    NOT NULL, -- JSON array of names
    status        TEXT COLLATE "C" NOT NULL CHECK (status IN
        ('waiting', 'ready', 'leased', 'succeeded', 'failed', 'skipped', 'cancelled')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    epoch         BIGINT  NOT NULL DEFAULT 0, -- the fence
    worker_id     TEXT,
    due_at        BIGINT,           -- ready: the next attempt; leased: the end of the lease
    input         TEXT,
    scope         TEXT,
    result        TEXT,
    error         TEXT,
    handled       BOOLEAN NOT NULL DEFAULT FALSE, -- failed: whether an event of the definition answers it
    created_at    BIGINT  NOT NULL,
    settled_at    BIGINT,
    PRIMARY KEY (tenant, execution_id, seq, action)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Waiting ones have no time and stand at the end, where only those who count open actions go.
CREATE INDEX actions_due ON actions (due_at) WHERE status IN ('waiting', 'ready', 'leased');

CREATE TABLE timers (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    armed_seq     BIGINT  NOT NULL, -- 0: the execution's own timeout
    ordinal       INTEGER NOT NULL,
    fire_at       BIGINT  NOT NULL,
    send          TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, execution_id, armed_seq, ordinal)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX timers_due ON timers (fire_at);

CREATE TABLE idempotency_keys (
    tenant        TEXT COLLATE "C" NOT NULL,
    key           TEXT COLLATE "C" NOT NULL,
    request_hash  BYTEA   NOT NULL,
    event_id      UUID    NOT NULL,
    created_at    BIGINT  NOT NULL,
    PRIMARY KEY (tenant, key)
);

-- BRIN: written in order of time, read only by retention, and almost free to keep.
CREATE INDEX idempotency_keys_age ON idempotency_keys USING brin (created_at);

-- What people and the poison rule decided about work that was stuck.
CREATE TABLE decisions (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    event_id      UUID,
    kind          TEXT    NOT NULL CHECK (kind IN ('bury', 'pause', 'retry')),
    actor         TEXT,
    reason        TEXT,
    at            BIGINT  NOT NULL
);

CREATE INDEX decisions_execution ON decisions (tenant, execution_id, id);

CREATE TABLE workers (
    worker_id     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    started_at    BIGINT  NOT NULL,
    seen_at       BIGINT  NOT NULL,
    lanes         TEXT    NOT NULL, -- JSON array of numbers
    in_flight     INTEGER NOT NULL,
    version       TEXT    NOT NULL
);

CREATE TABLE duties (
    duty          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder        TEXT,
    held_until    BIGINT  NOT NULL,
    done_at       BIGINT  NOT NULL
);

-- What `migrate --finish` moves forward once every role runs the new build.
CREATE TABLE settings (
    key           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value         TEXT    NOT NULL
);

INSERT INTO settings (key, value) VALUES ('format', '1');
