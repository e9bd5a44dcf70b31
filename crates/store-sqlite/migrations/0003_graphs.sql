-- Graphs: what the log says of them, laid out to be read, and who performs their nodes.
--
-- The same tables, columns, order and names as migrations/postgres/0003_graphs.sql.

-- The blob is written with the snapshot, the revision when it has changed.
CREATE TABLE graphs (
    tenant          TEXT    NOT NULL,
    execution_id    TEXT    NOT NULL,
    metadata        TEXT    NOT NULL, -- JSON: name, description, creator
    revision        INTEGER NOT NULL,
    blob            BLOB    NOT NULL, -- the whole graph at the execution's snapshot_seq
    PRIMARY KEY (tenant, execution_id)
) STRICT;

-- Instances of a fan-out NODE are NODE.0, NODE.1 and so on, one range of the key.
CREATE TABLE graph_nodes (
    tenant          TEXT    NOT NULL,
    execution_id    TEXT    NOT NULL,
    node            TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    attempt         INTEGER NOT NULL,
    seq             INTEGER NOT NULL, -- of the last change
    why             TEXT,
    spec            TEXT    NOT NULL, -- JSON
    children        TEXT    NOT NULL, -- JSON array of names
    instance_of     TEXT,             -- of an instance of a fan-out: of which
    item            TEXT,             -- and its item, JSON
    result          TEXT,             -- JSON
    error           TEXT,
    executor        TEXT,             -- who performs it, or did last
    executor_reason TEXT,
    started_at      INTEGER,
    dispatched_at   INTEGER,
    ended_at        INTEGER,
    PRIMARY KEY (tenant, execution_id, node)
) STRICT;

-- What executors wrote while they performed. A position is never used again.
CREATE TABLE graph_logs (
    position        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant          TEXT    NOT NULL,
    execution_id    TEXT    NOT NULL,
    node            TEXT    NOT NULL,
    attempt         INTEGER NOT NULL,
    text            TEXT    NOT NULL,
    kept            INTEGER NOT NULL, -- bytes of the attempt up to here
    truncated       INTEGER NOT NULL, -- more was written than is kept
    at              INTEGER NOT NULL
) STRICT;

CREATE INDEX graph_logs_node ON graph_logs (tenant, execution_id, node, position);

-- What happened to graphs, in order. A position is never used again.
CREATE TABLE graph_feed (
    position        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant          TEXT    NOT NULL,
    execution_id    TEXT    NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind = 'transitions' OR kind = 'dispatched'),
    first_seq       INTEGER,          -- of transitions: both included
    last_seq        INTEGER,
    body            TEXT,             -- of dispatches: JSON
    at              INTEGER NOT NULL,
    published       INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX graph_feed_execution ON graph_feed (tenant, execution_id, position);
CREATE INDEX graph_feed_unpublished ON graph_feed (position) WHERE published = 0;

-- Who can perform nodes, by what they said last.
CREATE TABLE executors (
    tenant          TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    address         TEXT    NOT NULL,
    roles           TEXT    NOT NULL, -- JSON array of texts
    labels          TEXT    NOT NULL, -- JSON array of names
    capacity        INTEGER NOT NULL,
    load            INTEGER NOT NULL,
    seen_at         INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- The graphs that have not ended.
CREATE INDEX executions_graphs ON executions (tenant, execution_id)
    WHERE definition = 'millstream.graph' AND ended_at IS NULL;
