-- The whole language of actions: queues, terms and undoing; incidents; children, correlations and signals.
--
-- The same tables, columns, order and names as migrations/postgres/0002_work.sql.
-- SQLite cannot alter a check: a table whose check changes is built anew and filled from the old one. The
-- view that reads it goes first and comes back at the end.

DROP VIEW event_records;

CREATE TABLE new_actions (
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    action        TEXT    NOT NULL,
    event_id      BLOB    NOT NULL,
    ordinal       INTEGER NOT NULL,
    alone         INTEGER NOT NULL, -- the only action of its transition: settling it concerns no other row
    needs         TEXT    NOT NULL, -- JSON array of names
    status        TEXT    NOT NULL CHECK (status = 'waiting' OR status = 'ready' OR status = 'leased'
        OR status = 'succeeded' OR status = 'failed' OR status = 'skipped' OR status = 'cancelled'
        OR status = 'awaiting' OR status = 'standby'),
    attempts      INTEGER NOT NULL DEFAULT 0,
    epoch         INTEGER NOT NULL DEFAULT 0, -- the fence
    worker_id     TEXT,
    due_at        INTEGER,          -- ready: the next attempt; leased, awaiting: until when
    input         TEXT,
    scope         TEXT,
    result        TEXT,
    error         TEXT,
    handled       INTEGER NOT NULL DEFAULT 0, -- failed: whether an event of the definition answers it
    created_at    INTEGER NOT NULL,
    settled_at    INTEGER,          -- null: open; of one on standby: since when, for it holds up nothing
    queue         TEXT    NOT NULL DEFAULT '', -- who may take it; the engine's own: ''
    revision      INTEGER NOT NULL DEFAULT 0,  -- how often a person gave it another input
    heartbeat_ms  INTEGER,          -- the terms: see millstream_core::terms
    attempt_ms    INTEGER,
    start_ms      INTEGER,
    close_ms      INTEGER,
    ready_at      INTEGER,          -- since when it may be performed
    expires_at    INTEGER,          -- ready: when its schedule is missed
    attempt_until INTEGER,          -- leased: the end of the attempt, however often the lease is renewed
    progress      TEXT,
    undoes        TEXT,             -- of an undo action: what it takes back
    closing       INTEGER NOT NULL DEFAULT 0, -- it failed, and waits for the undoing to be over
    PRIMARY KEY (tenant, execution_id, seq, action)
) STRICT;

INSERT INTO new_actions (tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, attempts,
                         epoch, worker_id, due_at, input, scope, result, error, handled, created_at,
                         settled_at, ready_at)
SELECT tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, attempts,
       epoch, worker_id, due_at, input, scope, result, error, handled, created_at,
       settled_at, created_at
FROM actions ORDER BY rowid;

DROP TABLE actions;
ALTER TABLE new_actions RENAME TO actions;

-- Waiting ones have no time and stand before the others of their queue, where only those who count open
-- actions go.
CREATE INDEX actions_due ON actions (queue, due_at) WHERE settled_at IS NULL;
CREATE INDEX actions_expiring ON actions (expires_at) WHERE expires_at IS NOT NULL;
-- Leases that somebody has to look at when they end without an outcome: of external workers, which alone have
-- attempt_ms, and of what has to be over at some time.
CREATE INDEX actions_lent ON actions (due_at)
    WHERE status = 'leased' AND (attempt_ms IS NOT NULL OR close_ms IS NOT NULL);

-- Events with what became of them. The status is read off the rows that tell it, in this order: a verdict,
-- a place in the mailbox, open actions of its transition. What is on standby is settled.
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

ALTER TABLE executions ADD COLUMN parent_id TEXT;    -- the execution that started it, of the same tenant
ALTER TABLE executions ADD COLUMN parent_close TEXT; -- what its end means for this one
ALTER TABLE executions ADD COLUMN correlation TEXT;  -- by which signals find it; null once it has ended

-- No phase in the conditions: every commit writes it, and would write the index as well.
CREATE INDEX executions_parent ON executions (tenant, parent_id, execution_id) WHERE parent_id IS NOT NULL;
CREATE INDEX executions_correlation ON executions (tenant, correlation, execution_id)
    WHERE correlation IS NOT NULL;

-- Failures that wait for a person, or have waited.
CREATE TABLE incidents (
    id            INTEGER NOT NULL PRIMARY KEY, -- the order of lists
    tenant        TEXT    NOT NULL,
    incident_id   BLOB    NOT NULL,
    execution_id  TEXT    NOT NULL,
    definition    TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    event_id      BLOB    NOT NULL,
    seq           INTEGER,          -- of the action; null: the event itself could not be decided
    action        TEXT,
    class         TEXT    NOT NULL,
    fingerprint   TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    opened_at     INTEGER NOT NULL,
    resolution    TEXT,             -- null: open
    resolved_by   TEXT,
    resolved_why  TEXT,
    resolved_at   INTEGER,
    UNIQUE (tenant, incident_id)
) STRICT;

CREATE INDEX incidents_list ON incidents (tenant, id);
CREATE INDEX incidents_waiting ON incidents (tenant, id) WHERE resolution IS NULL;
CREATE INDEX incidents_open ON incidents (tenant, fingerprint, id) WHERE resolution IS NULL;
CREATE INDEX incidents_execution ON incidents (tenant, execution_id, id);

-- Signals that nobody waits for yet, in the order of their acceptance.
CREATE TABLE signals (
    id            INTEGER NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    event_id      BLOB    NOT NULL, -- of the signal, and of the event that it becomes
    correlation   TEXT    NOT NULL,
    definition    TEXT,             -- only for executions of this one
    name          TEXT    NOT NULL,
    payload       TEXT    NOT NULL,
    actor         TEXT,
    traceparent   TEXT,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    UNIQUE (tenant, event_id)
) STRICT;

CREATE INDEX signals_correlation ON signals (tenant, correlation, id);
CREATE INDEX signals_expiring ON signals (expires_at);

-- External workers, as they last said who they are.
CREATE TABLE task_workers (
    tenant        TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    kinds         TEXT    NOT NULL, -- JSON array of names
    labels        TEXT    NOT NULL, -- JSON array of names
    seen_at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

ALTER TABLE workers ADD COLUMN calls TEXT NOT NULL DEFAULT '[]'; -- JSON array of names

CREATE TABLE new_decisions (
    id            INTEGER NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    event_id      BLOB,
    kind          TEXT    NOT NULL CHECK (kind IN ('bury', 'pause', 'retry', 'retry_with_input', 'skip',
                                                   'fail', 'cancel', 'ended')),
    actor         TEXT,
    reason        TEXT,
    at            INTEGER NOT NULL
) STRICT;

INSERT INTO new_decisions (id, tenant, execution_id, event_id, kind, actor, reason, at)
SELECT id, tenant, execution_id, event_id, kind, actor, reason, at FROM decisions;

DROP TABLE decisions;
ALTER TABLE new_decisions RENAME TO decisions;
CREATE INDEX decisions_execution ON decisions (tenant, execution_id, id);
