-- The spine: everything that happens to an execution, and everything the world must still do for it.
--
-- The same tables, columns, order and names as migrations/postgres/0001_spine.sql.
-- Times are milliseconds since the Unix epoch. Statuses are the words of millstream_core::status.
-- Payloads, decisions, snapshots, inputs, results and errors of actions are JSON kept as text: the
-- bytes that came in are the bytes that come out. Ids of events are blobs of 16 bytes and hashes blobs of
-- 32 (`hex()` shows them). A row that is written in order of acceptance has its number as its rowid.
-- Conditions that every write meets are comparisons and not lists: SQLite builds a table for a list of
-- three words and more, each time.
-- No foreign keys: on PostgreSQL their checks take locks that deadlock, and here the two must behave
-- alike. Retention removes the rows of an execution together. Every key begins with the tenant.

CREATE TABLE tenants (
    tenant      TEXT    NOT NULL PRIMARY KEY,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    hash        BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the key
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
    input_hash    BLOB    NOT NULL,
    position      INTEGER NOT NULL PRIMARY KEY, -- accept_no of its start event: the order of lists
    seq           INTEGER NOT NULL, -- the fence
    state         TEXT    NOT NULL,
    phase         TEXT    NOT NULL CHECK (phase = 'active' OR phase = 'completed' OR phase = 'failed'
        OR phase = 'cancelled'),
    paused_reason TEXT,             -- not null: paused
    snapshot      TEXT    NOT NULL, -- the state at snapshot_seq
    snapshot_seq  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL, -- of the last transition
    ended_at      INTEGER,          -- of the transition that ended it
    UNIQUE (tenant, execution_id)
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

-- An accepted event. It is written once: what becomes of it is told by the rows below, and only an end
-- that no other row tells (rejected, failed, dead) is written here. See the view `event_records`.
CREATE TABLE events (
    tenant        TEXT    NOT NULL,
    event_id      BLOB    NOT NULL,
    execution_id  TEXT    NOT NULL,
    accept_no     INTEGER NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    payload       TEXT    NOT NULL,
    timer_seq     INTEGER,          -- of a timer: the seq of the entry that armed it
    actor         TEXT,
    traceparent   TEXT,
    created_at    INTEGER NOT NULL,
    attempts      INTEGER NOT NULL DEFAULT 0, -- at deciding it, that were cut short
    verdict       TEXT    CHECK (verdict = 'rejected' OR verdict = 'failed' OR verdict = 'dead'),
    error         TEXT,             -- why
    rejected_in   TEXT,             -- the state that rejected it
    rejected_by   TEXT,             -- the worker that did
    closed_at     INTEGER,          -- when the verdict was given
    UNIQUE (tenant, event_id)
) STRICT;

CREATE INDEX events_list ON events (tenant, execution_id, accept_no);
CREATE INDEX events_accepted ON events (tenant, accept_no);
-- Dead and failed events are few and looked for by status alone.
CREATE INDEX events_stuck ON events (tenant, verdict, accept_no) WHERE verdict IN ('failed', 'dead');

-- What waits to be decided, in order: a row comes with its event and goes with the decision. A row that
-- is not deferred is the doorbell. A table of its own, so that deciding an event touches no index of the
-- events, and small, so that its pages stay at hand.
CREATE TABLE mailbox (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    accept_no     INTEGER NOT NULL,
    event_id      BLOB    NOT NULL,
    bytes         INTEGER NOT NULL, -- of the payload
    cancels       INTEGER NOT NULL, -- a cancellation is decided also while the execution is paused
    deferred      INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, execution_id, accept_no)
) STRICT, WITHOUT ROWID;

-- Deferred events are found without reading past all the undecided ones.
CREATE INDEX mailbox_deferred ON mailbox (tenant, execution_id, accept_no) WHERE deferred = 1;

CREATE TABLE transitions (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    event_id      BLOB    NOT NULL,
    name          TEXT    NOT NULL,
    at            INTEGER NOT NULL,
    decision      TEXT    NOT NULL,
    worker_id     TEXT,             -- of a start: none
    committed_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, execution_id, seq)
) STRICT;

CREATE UNIQUE INDEX transitions_event ON transitions (tenant, event_id);

CREATE TABLE actions (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    action        TEXT    NOT NULL,
    event_id      BLOB    NOT NULL,
    ordinal       INTEGER NOT NULL,
    alone         INTEGER NOT NULL, -- the only action of its transition: settling it concerns no other row
    needs         TEXT    NOT NULL, -- JSON array of names
    status        TEXT    NOT NULL CHECK (status = 'waiting' OR status = 'ready' OR status = 'leased'
        OR status = 'succeeded' OR status = 'failed' OR status = 'skipped' OR status = 'cancelled'),
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
    settled_at    INTEGER,          -- null: open
    PRIMARY KEY (tenant, execution_id, seq, action)
) STRICT;

-- Waiting ones have no time and stand before all others, where only those who count open actions go.
CREATE INDEX actions_due ON actions (due_at) WHERE settled_at IS NULL;

-- Events with what became of them. The status is read off the rows that tell it, in this order: a verdict,
-- a place in the mailbox, open actions of its transition.
CREATE VIEW event_records AS
SELECT tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, traceparent, created_at,
       attempts, error, rejected_in,
       CASE WHEN verdict IS NOT NULL THEN verdict
            WHEN deferred IS NOT NULL THEN CASE WHEN deferred THEN 'deferred' ELSE 'pending' END
            WHEN open THEN 'processing'
            ELSE 'completed' END AS status,
       seq, decision, coalesce(worker_id, rejected_by) AS worker_id, committed_at AS started_at,
       CASE WHEN verdict IS NOT NULL THEN closed_at
            WHEN deferred IS NULL AND NOT coalesce(open, FALSE)
            THEN max(committed_at, coalesce(settled_at, committed_at)) END AS completed_at
FROM (
    SELECT e.*, m.deferred, t.seq, t.decision, t.worker_id, t.committed_at,
           (SELECT max(a.settled_at IS NULL) FROM actions AS a
            WHERE a.tenant = t.tenant AND a.execution_id = t.execution_id AND a.seq = t.seq) AS open,
           (SELECT max(a.settled_at) FROM actions AS a
            WHERE a.tenant = t.tenant AND a.execution_id = t.execution_id AND a.seq = t.seq) AS settled_at
    FROM events AS e
    LEFT JOIN mailbox AS m
        ON m.tenant = e.tenant AND m.execution_id = e.execution_id AND m.accept_no = e.accept_no
    LEFT JOIN transitions AS t ON t.tenant = e.tenant AND t.event_id = e.event_id
);

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
    request_hash  BLOB    NOT NULL,
    event_id      BLOB    NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- What people and the poison rule decided about work that was stuck.
CREATE TABLE decisions (
    id            INTEGER NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    event_id      BLOB,
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
