-- Graphs: what the log says of them, laid out to be read, and who performs their nodes.
--
-- The same tables, columns, order and names as migrations/sqlite/0003_graphs.sql.
-- Whoever writes rows of a graph holds its row in `graphs`: so are entries of the feed, whose positions are
-- taken under that lock, seen in the order of their positions.

-- The blob is written with the snapshot, the revision when it has changed.
CREATE TABLE graphs (
    tenant          TEXT COLLATE "C" NOT NULL,
    execution_id    TEXT COLLATE "C" NOT NULL,
    metadata        TEXT    NOT NULL, -- JSON: name, description, creator
    revision        BIGINT  NOT NULL,
    blob            BYTEA   NOT NULL, -- the whole graph at the execution's snapshot_seq
    PRIMARY KEY (execution_id, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Each row is updated two or three times (it runs, somebody performs it, it has ended) and no index is
-- concerned: half of each page is kept free for the next version. Instances of a fan-out NODE are NODE.0,
-- NODE.1 and so on, one range of the key.
CREATE TABLE graph_nodes (
    tenant          TEXT COLLATE "C" NOT NULL,
    execution_id    TEXT COLLATE "C" NOT NULL,
    node            TEXT COLLATE "C" NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    attempt         BIGINT  NOT NULL,
    seq             BIGINT  NOT NULL, -- of the last change
    why             TEXT,
    spec            TEXT    NOT NULL, -- JSON
    children        TEXT    NOT NULL, -- JSON array of names
    instance_of     TEXT COLLATE "C", -- of an instance of a fan-out: of which
    item            TEXT,             -- and its item, JSON
    result          TEXT,             -- JSON
    error           TEXT,
    executor        TEXT,             -- who performs it, or did last
    executor_reason TEXT,
    started_at      BIGINT,
    dispatched_at   BIGINT,
    ended_at        BIGINT,
    PRIMARY KEY (execution_id, tenant, node)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- What executors wrote while they performed.
CREATE TABLE graph_logs (
    position        BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant          TEXT COLLATE "C" NOT NULL,
    execution_id    TEXT COLLATE "C" NOT NULL,
    node            TEXT COLLATE "C" NOT NULL,
    attempt         BIGINT  NOT NULL,
    text            TEXT    NOT NULL,
    kept            BIGINT  NOT NULL, -- bytes of the attempt up to here
    truncated       BOOLEAN NOT NULL, -- more was written than is kept
    at              BIGINT  NOT NULL,
    PRIMARY KEY (execution_id, tenant, node, position)
);

-- What happened to graphs, in order. No index has the position alone: one would look good for reading the
-- entries of an execution, and then read everybody's.
CREATE TABLE graph_feed (
    position        BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant          TEXT COLLATE "C" NOT NULL,
    execution_id    TEXT COLLATE "C" NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind IN ('transitions', 'dispatched')),
    first_seq       BIGINT,           -- of transitions: both included
    last_seq        BIGINT,
    body            TEXT,             -- of dispatches: JSON
    at              BIGINT  NOT NULL,
    published       BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (execution_id, tenant, position)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX graph_feed_unpublished ON graph_feed (position) WHERE NOT published;

-- Who can perform nodes, by what they said last.
CREATE TABLE executors (
    tenant          TEXT COLLATE "C" NOT NULL,
    name            TEXT COLLATE "C" NOT NULL,
    address         TEXT    NOT NULL,
    roles           TEXT    NOT NULL, -- JSON array of texts
    labels          TEXT    NOT NULL, -- JSON array of names
    capacity        BIGINT  NOT NULL,
    load            BIGINT  NOT NULL,
    seen_at         BIGINT  NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- The graphs that have not ended. No commit but the last changes ended_at.
CREATE INDEX executions_graphs ON executions (execution_id, tenant)
    WHERE definition = 'millstream.graph' AND ended_at IS NULL;
