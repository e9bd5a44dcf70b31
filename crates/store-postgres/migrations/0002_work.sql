-- Work for others, undoing, incidents, and how executions find each other.
--
-- The same tables, columns, order and names as migrations/sqlite/0002_work.sql.

ALTER TABLE actions
    ADD COLUMN queue         TEXT COLLATE "C" NOT NULL DEFAULT '', -- who may take it; '': every worker
    ADD COLUMN revision      INTEGER NOT NULL DEFAULT 0, -- how often a person gave it another input
    ADD COLUMN heartbeat_ms  BIGINT,            -- a lease ends this long after the last sign of life
    ADD COLUMN attempt_ms    BIGINT,            -- how long one lease may be extended in all
    ADD COLUMN start_ms      BIGINT,            -- from ready to the first lease
    ADD COLUMN close_ms      BIGINT,            -- from ready to the outcome
    ADD COLUMN ready_at      BIGINT,            -- since when it may be performed
    ADD COLUMN expires_at    BIGINT,            -- ready: when its schedule is missed
    ADD COLUMN attempt_until BIGINT,            -- leased: the end of the attempt
    ADD COLUMN progress      TEXT,              -- JSON, as the last sign of life told it
    ADD COLUMN undoes        TEXT COLLATE "C",  -- of an undo action: what it takes back
    ADD COLUMN closing       BOOLEAN NOT NULL DEFAULT FALSE, -- it failed, and waits for the undoing
    DROP CONSTRAINT actions_status_check,
    ADD CONSTRAINT actions_status_check CHECK (status IN
        ('waiting', 'ready', 'leased', 'awaiting', 'standby', 'succeeded', 'failed', 'skipped', 'cancelled'));

UPDATE actions SET ready_at = created_at;

-- Within a queue those that are due longest come first; waiting ones have no time and stand at the end.
DROP INDEX actions_due;
CREATE INDEX actions_due ON actions (queue, due_at) WHERE status IN ('waiting', 'ready', 'leased', 'awaiting');
CREATE INDEX actions_expiring ON actions (expires_at) WHERE expires_at IS NOT NULL;
-- Leases that somebody has to look at when they end without an outcome: of external workers, which alone have
-- attempt_ms, and of what has to be over at some time.
CREATE INDEX actions_lent ON actions (due_at)
    WHERE status = 'leased' AND (attempt_ms IS NOT NULL OR close_ms IS NOT NULL);

-- An undo action that nothing has called for holds up nothing: it counts as settled.
CREATE OR REPLACE VIEW event_records AS
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
    SELECT bool_or(a.status NOT IN ('standby', 'succeeded', 'failed', 'skipped', 'cancelled')) AS open,
           max(a.settled_at) AS settled_at
    FROM actions a
    WHERE a.tenant = t.tenant AND a.execution_id = t.execution_id AND a.seq = t.seq
) o ON TRUE;

ALTER TABLE executions
    ADD COLUMN parent_id    TEXT COLLATE "C", -- execution_id of the parent, of the same tenant
    ADD COLUMN parent_close TEXT CHECK (parent_close IN ('cancel', 'abandon')),
    ADD COLUMN correlation  TEXT COLLATE "C"; -- by which signals find it

-- Only of those that have not ended: what is looked for does not grow with history. No commit but the
-- last changes ended_at.
CREATE INDEX executions_parent ON executions (parent_id, tenant, execution_id)
    WHERE parent_id IS NOT NULL AND ended_at IS NULL;
CREATE INDEX executions_correlation ON executions (correlation, tenant, execution_id)
    WHERE correlation IS NOT NULL AND ended_at IS NULL;

-- Failures that wait for a person, or did.
CREATE TABLE incidents (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the place in lists
    tenant        TEXT COLLATE "C" NOT NULL,
    incident_id   UUID    NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    definition    TEXT COLLATE "C" NOT NULL,
    version       INTEGER NOT NULL,
    event_id      UUID    NOT NULL,
    seq           BIGINT,           -- with `action`; both null: the event itself could not be decided
    action        TEXT COLLATE "C",
    class         TEXT COLLATE "C" NOT NULL,
    fingerprint   TEXT COLLATE "C" NOT NULL,
    reason        TEXT    NOT NULL,
    opened_at     BIGINT  NOT NULL,
    resolution    TEXT CHECK (resolution IN
        ('retry', 'retry_with_input', 'skip', 'fail', 'cancel', 'ended')), -- null: open
    resolved_by   TEXT,
    resolved_why  TEXT,
    resolved_at   BIGINT,
    UNIQUE (tenant, incident_id)
);

CREATE INDEX incidents_open ON incidents (tenant, fingerprint, id) WHERE resolution IS NULL;
CREATE INDEX incidents_open_list ON incidents (tenant, id) WHERE resolution IS NULL;
CREATE INDEX incidents_execution ON incidents (execution_id, tenant, id);
CREATE INDEX incidents_list ON incidents ((tenant || ''), id);

-- Signals that nobody waits for yet, in the order of acceptance.
CREATE TABLE signals (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant        TEXT COLLATE "C" NOT NULL,
    event_id      UUID    NOT NULL, -- of the event that it becomes
    correlation   TEXT COLLATE "C" NOT NULL,
    definition    TEXT COLLATE "C", -- null: executions of any
    name          TEXT COLLATE "C" NOT NULL,
    payload       TEXT    NOT NULL,
    actor         TEXT,
    traceparent   TEXT,
    created_at    BIGINT  NOT NULL,
    expires_at    BIGINT  NOT NULL,
    UNIQUE (tenant, event_id)
);

CREATE INDEX signals_correlation ON signals (correlation, tenant, id);
CREATE INDEX signals_expiring ON signals (expires_at);

-- External workers, by what they said last.
CREATE TABLE task_workers (
    tenant        TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    kinds         TEXT    NOT NULL, -- JSON array of names
    labels        TEXT    NOT NULL, -- JSON array of names
    seen_at       BIGINT  NOT NULL,
    PRIMARY KEY (tenant, name)
);

ALTER TABLE workers ADD COLUMN calls TEXT NOT NULL DEFAULT '[]'; -- JSON array of names

-- Also the words of a resolution.
ALTER TABLE decisions
    DROP CONSTRAINT decisions_kind_check,
    ADD CONSTRAINT decisions_kind_check CHECK (kind IN
        ('bury', 'pause', 'retry', 'retry_with_input', 'skip', 'fail', 'cancel', 'ended'));
