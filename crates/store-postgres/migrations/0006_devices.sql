-- Devices that take work, and the runs that they take.
--
-- The same tables, columns, order and names as migrations/sqlite/0006_devices.sql.
-- Whoever changes a run holds its row in `runs` and then those in `run_seats`, both in the order of their keys, and
-- before anything else. A sign of life holds its rows in `run_seats` alone.

-- Devices, by what they said last; `paused` is a person's word.
CREATE TABLE devices (
    tenant          TEXT COLLATE "C" NOT NULL,
    device_id       TEXT COLLATE "C" NOT NULL,
    capabilities    TEXT    NOT NULL, -- JSON array of names
    capability      BIGINT  NOT NULL, -- how capable it is altogether
    capacity        BIGINT,           -- seats at once; null: any number
    load            DOUBLE PRECISION NOT NULL,
    quality         DOUBLE PRECISION NOT NULL,
    battery         BIGINT,           -- percent
    on_battery      BOOLEAN NOT NULL,
    coordinates     BOOLEAN NOT NULL, -- whether it may be elected
    paused          BOOLEAN NOT NULL DEFAULT FALSE,
    seen_at         BIGINT  NOT NULL,
    PRIMARY KEY (tenant, device_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- The body is the whole run; the other columns are what it is looked for by.
CREATE TABLE runs (
    position        BIGINT GENERATED ALWAYS AS IDENTITY, -- the order of lists
    tenant          TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    kind            TEXT COLLATE "C" NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    execution_id    TEXT COLLATE "C", -- the execution that waits or waited for it
    version         BIGINT  NOT NULL, -- raised by every change
    body            TEXT    NOT NULL, -- JSON with a format number
    updated_at      BIGINT  NOT NULL,
    ended_at        BIGINT,
    PRIMARY KEY (run_id, tenant)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX runs_list ON runs ((tenant || ''), position);
CREATE INDEX runs_status ON runs ((tenant || ''), status, position);
CREATE INDEX runs_kind ON runs ((tenant || ''), kind, position);
CREATE INDEX runs_execution ON runs (execution_id, tenant, position) WHERE execution_id IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- Seats of runs: who has them, and when somebody has to look. `heard_at` and `progress` are newer than the body.
CREATE TABLE run_seats (
    tenant          TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    seat            BIGINT  NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    device          TEXT COLLATE "C", -- who has it or is asked
    token           BIGINT,           -- the fence
    priority        BIGINT  NOT NULL,
    assigned_at     BIGINT,
    due_at          BIGINT,           -- when somebody has to look; null: nobody has to
    heard_at        BIGINT,           -- claimed, processing: when its device was heard of
    silence_ms      BIGINT  NOT NULL, -- for how long it may not be
    begin_by        BIGINT,           -- claimed: until when it has to begin
    paused          BOOLEAN NOT NULL,
    progress        TEXT,             -- JSON
    PRIMARY KEY (run_id, tenant, seat)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX run_seats_held ON run_seats ((tenant || ''), device, priority DESC, assigned_at, run_id)
    WHERE device IS NOT NULL;
CREATE INDEX run_seats_due ON run_seats (due_at) WHERE due_at IS NOT NULL;

-- What happened to runs, in order. Only ever added to.
CREATE TABLE run_log (
    position        BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant          TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    body            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (run_id, tenant, position)
);
