-- The spine: everything that happens to an execution, and everything the world must still do for it.
--
-- The same tables, columns, order and names as migrations/sqlite/0001_spine.sql.
-- Times are milliseconds since the Unix epoch. Statuses are the words of millstream_core::status.
-- Payloads, decisions, snapshots, inputs, results and errors of actions are JSON kept as text, never
-- jsonb: the bytes that came in are the bytes that come out, and jsonb refuses \u0000.
-- Text that is part of a key collates "C": the order of the bytes is the order of locks, here and in
-- the program, whatever the locale of the database.
-- No foreign keys: their checks take locks that deadlock. Retention removes the rows of an execution
-- together. Every key has the tenant in it, behind the id: what tells rows apart comes first, so that a
-- comparison of two keys mostly ends at the first column.

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
    PRIMARY KEY (execution_id, tenant)
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

-- An accepted event. It is written once: what becomes of it is told by the rows below, and only an end
-- that no other row tells (rejected, failed, dead) is written here. See the view `event_records`.
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
    created_at    BIGINT  NOT NULL,
    attempts      INTEGER NOT NULL DEFAULT 0, -- at deciding it, that were cut short
    verdict       TEXT COLLATE "C" CHECK (verdict IN ('rejected', 'failed', 'dead')),
    error         TEXT,             -- why
    rejected_in   TEXT,             -- the state that rejected it
    rejected_by   TEXT,             -- the worker that did
    closed_at     BIGINT,           -- when the verdict was given
    PRIMARY KEY (event_id, tenant)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- For lists, of an execution and over all. The tenant is an expression (see executions_position).
CREATE INDEX events_list ON events (execution_id, (tenant || ''), accept_no);
CREATE INDEX events_accepted ON events ((tenant || ''), (accept_no + 0));
-- Dead and failed events are few and looked for by status alone.
CREATE INDEX events_stuck ON events (tenant, verdict, accept_no) WHERE verdict IN ('failed', 'dead');

-- What waits to be decided, in order: a row comes with its event and goes with the decision. A row that
-- is not deferred is the doorbell. A table of its own, so that deciding an event writes no new version of
-- the event and of its index entries.
CREATE TABLE mailbox (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    accept_no     BIGINT  NOT NULL,
    event_id      UUID    NOT NULL,
    bytes         INTEGER NOT NULL, -- of the payload
    cancels       BOOLEAN NOT NULL, -- a cancellation is decided also while the execution is paused
    deferred      BOOLEAN NOT NULL DEFAULT FALSE,
    created_at    BIGINT  NOT NULL,
    PRIMARY KEY (execution_id, tenant, accept_no)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Deferred events are found without reading past all the undecided ones; by an expression, because the
-- primary key would look as good to a planner without statistics.
CREATE INDEX mailbox_deferred
    ON mailbox ((CASE WHEN deferred THEN execution_id END), (tenant || ''), accept_no) WHERE deferred;

CREATE TABLE transitions (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    seq           BIGINT  NOT NULL,
    event_id      UUID    NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    at            BIGINT  NOT NULL,
    decision      TEXT    NOT NULL,
    worker_id     TEXT,             -- of a start: none
    committed_at  BIGINT  NOT NULL,
    PRIMARY KEY (execution_id, tenant, seq)
);

-- To be asked for with the tenant as an expression, or the primary key would look as good.
CREATE INDEX transitions_event ON transitions (event_id);

CREATE TABLE actions (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    seq           BIGINT  NOT NULL,
    action        TEXT COLLATE "C" NOT NULL,
    event_id      UUID    NOT NULL,
    ordinal       INTEGER NOT NULL,
    alone         BOOLEAN NOT NULL, -- the only action of its transition: settling it concerns no other row
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
    PRIMARY KEY (execution_id, tenant, seq, action)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Waiting ones have no time and stand at the end, where only those who count open actions go.
CREATE INDEX actions_due ON actions (due_at) WHERE status IN ('waiting', 'ready', 'leased');

-- Events with what became of them. The status is read off the rows that tell it, in this order: a verdict,
-- a place in the mailbox, open actions of its transition.
CREATE VIEW event_records AS
SELECT e.tenant, e.event_id, e.execution_id, e.accept_no, e.name, e.payload, e.timer_seq, e.actor,
       e.traceparent, e.created_at, e.attempts, e.error, e.rejected_in,
       CASE WHEN e.verdict IS NOT NULL THEN e.verdict
            WHEN m.accept_no IS NOT NULL THEN CASE WHEN m.deferred THEN 'deferred' ELSE 'pending' END
            WHEN o.open THEN 'processing'
            ELSE 'completed' END AS status,
       t.seq, t.decision, coalesce(t.worker_id, e.rejected_by) AS worker_id, t.committed_at AS started_at,
       CASE WHEN e.verdict IS NOT NULL THEN e.closed_at
            WHEN m.accept_no IS NULL AND NOT coalesce(o.open, FALSE)
            THEN greatest(t.committed_at, o.settled_at) END AS completed_at
FROM events e
LEFT JOIN LATERAL (
    SELECT m.accept_no, m.deferred FROM mailbox m
    WHERE m.tenant = e.tenant AND m.execution_id = e.execution_id AND m.accept_no = e.accept_no
    OFFSET 0
) m ON TRUE
LEFT JOIN LATERAL (
    SELECT t.* FROM transitions t WHERE t.event_id = e.event_id AND t.tenant || '' = e.tenant OFFSET 0
) t ON TRUE
LEFT JOIN LATERAL (
    SELECT bool_or(a.status NOT IN ('succeeded', 'failed', 'skipped', 'cancelled')) AS open,
           max(a.settled_at) AS settled_at
    FROM actions a
    WHERE a.tenant = t.tenant AND a.execution_id = t.execution_id AND a.seq = t.seq
) o ON TRUE;

CREATE TABLE timers (
    tenant        TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    armed_seq     BIGINT  NOT NULL, -- 0: the execution's own timeout
    ordinal       INTEGER NOT NULL,
    fire_at       BIGINT  NOT NULL,
    send          TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (execution_id, tenant, armed_seq, ordinal)
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
