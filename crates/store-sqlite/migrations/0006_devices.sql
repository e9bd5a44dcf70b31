-- Devices that take work, and the runs that they take.
--
-- The same tables, columns, order and names as migrations/postgres/0006_devices.sql.

-- Devices, by what they said last; `paused` is a person's word.
CREATE TABLE devices (
    tenant          TEXT    NOT NULL,
    device_id       TEXT    NOT NULL,
    capabilities    TEXT    NOT NULL, -- JSON array of names
    capability      INTEGER NOT NULL, -- how capable it is altogether
    capacity        INTEGER,          -- seats at once; null: any number
    load            REAL    NOT NULL,
    quality         REAL    NOT NULL,
    battery         INTEGER,          -- percent
    on_battery      INTEGER NOT NULL,
    coordinates     INTEGER NOT NULL, -- whether it may be elected
    paused          INTEGER NOT NULL DEFAULT 0,
    seen_at         INTEGER NOT NULL,
    PRIMARY KEY (tenant, device_id)
) STRICT, WITHOUT ROWID;

-- The body is the whole run; the other columns are what it is looked for by. A position is never used again.
CREATE TABLE runs (
    position        INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of lists
    tenant          TEXT    NOT NULL,
    run_id          TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    execution_id    TEXT,             -- the execution that waits or waited for it
    version         INTEGER NOT NULL, -- raised by every change
    body            TEXT    NOT NULL, -- JSON with a format number
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    UNIQUE (tenant, run_id)
) STRICT;

CREATE INDEX runs_list ON runs (tenant, position);
CREATE INDEX runs_status ON runs (tenant, status, position);
CREATE INDEX runs_kind ON runs (tenant, kind, position);
CREATE INDEX runs_execution ON runs (tenant, execution_id, position) WHERE execution_id IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- Seats of runs: who has them, and when somebody has to look. `heard_at` and `progress` are newer than the body.
CREATE TABLE run_seats (
    tenant          TEXT    NOT NULL,
    run_id          TEXT    NOT NULL,
    seat            INTEGER NOT NULL,
    status          TEXT    NOT NULL,
    device          TEXT,             -- who has it or is asked
    token           INTEGER,          -- the fence
    priority        INTEGER NOT NULL,
    assigned_at     INTEGER,
    due_at          INTEGER,          -- when somebody has to look; null: nobody has to
    heard_at        INTEGER,          -- claimed, processing: when its device was heard of
    silence_ms      INTEGER NOT NULL, -- for how long it may not be
    begin_by        INTEGER,          -- claimed: until when it has to begin
    paused          INTEGER NOT NULL,
    progress        TEXT,             -- JSON
    PRIMARY KEY (tenant, run_id, seat)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_seats_held ON run_seats (tenant, device, priority DESC, assigned_at, run_id)
    WHERE device IS NOT NULL;
CREATE INDEX run_seats_due ON run_seats (due_at) WHERE due_at IS NOT NULL;

-- What happened to runs, in order. Only ever added to; a position is never used again.
CREATE TABLE run_log (
    position        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant          TEXT    NOT NULL,
    run_id          TEXT    NOT NULL,
    body            TEXT    NOT NULL  -- JSON
) STRICT;

CREATE INDEX run_log_run ON run_log (tenant, run_id, position);
