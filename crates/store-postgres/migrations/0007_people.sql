-- People: queues of work, the items in them, and who was given what.
--
-- The same tables, columns, order and names as migrations/sqlite/0007_people.sql.
-- An item and its assignments, openings and log are changed by whoever holds the item's row.

CREATE TABLE queues (
    tenant          TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    config          TEXT    NOT NULL, -- JSON, with its format
    state           TEXT    NOT NULL CHECK (state IN ('active', 'paused')),
    created_at      BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    PRIMARY KEY (tenant, queue)
);

CREATE TABLE people (
    tenant          TEXT COLLATE "C" NOT NULL,
    person          TEXT COLLATE "C" NOT NULL,
    skills          TEXT    NOT NULL, -- JSON array of names
    state           TEXT    NOT NULL CHECK (state IN ('active', 'paused')),
    updated_at      BIGINT  NOT NULL,
    PRIMARY KEY (tenant, person)
);

-- Sets of skills that items of a queue ask for: numbered within the queue, never changed. Numbers are given by
-- whoever holds the queue's row, so a larger one is seen later.
CREATE TABLE skill_sets (
    tenant          TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    set_id          BIGINT  NOT NULL,
    skills          TEXT COLLATE "C" NOT NULL, -- JSON array of names, in order
    PRIMARY KEY (tenant, queue, set_id)
);

CREATE UNIQUE INDEX skill_sets_skills ON skill_sets (queue, tenant, md5(skills));

-- Of items that wait in line, and of imports.
CREATE SEQUENCE standing;

CREATE TABLE items (
    tenant          TEXT COLLATE "C" NOT NULL,
    item            TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    version         BIGINT  NOT NULL,
    position        BIGINT  NOT NULL, -- in the order of import
    due_at          BIGINT,
    ended_at        BIGINT,
    body            TEXT    NOT NULL, -- JSON, with its format
    payload         TEXT    NOT NULL, -- JSON, never changed
    PRIMARY KEY (item, tenant)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX items_position ON items (tenant, position);
CREATE INDEX items_queue ON items (queue, tenant, position);
CREATE INDEX items_status ON items (status, queue, tenant, position);
CREATE INDEX items_due ON items (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX items_ended ON items (ended_at) WHERE ended_at IS NOT NULL;

-- Items with openings, in the order in which they are given out: one row for all openings of an item. Who may not
-- have it is in the row, so that looking for the next one joins nothing.
CREATE TABLE openings (
    tenant          TEXT COLLATE "C" NOT NULL,
    item            TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    set_id          BIGINT  NOT NULL,
    urgency         INTEGER NOT NULL, -- the priority, negated
    class           SMALLINT NOT NULL, -- 0 somebody had it, 1 nobody had it
    position        BIGINT  NOT NULL,
    needs           INTEGER NOT NULL,
    barred          TEXT[]  NOT NULL,
    PRIMARY KEY (item, tenant)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX openings_line ON openings (queue, tenant, urgency, class, position);
CREATE INDEX openings_set ON openings (set_id, queue, tenant, urgency, class, position);

CREATE TABLE assignments (
    tenant          TEXT COLLATE "C" NOT NULL,
    assignment      UUID    NOT NULL,
    item            TEXT COLLATE "C" NOT NULL,
    person          TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    is_open         BOOLEAN NOT NULL,
    due_at          BIGINT,
    body            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (assignment, tenant)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX assignments_item ON assignments (item, tenant, assignment);
CREATE INDEX assignments_person ON assignments (person, tenant, assignment);
CREATE INDEX assignments_status ON assignments (status, queue, tenant, assignment);
CREATE INDEX assignments_tenant ON assignments (tenant, assignment);
CREATE INDEX assignments_open ON assignments (person, tenant) WHERE is_open;
CREATE INDEX assignments_due ON assignments (due_at) WHERE due_at IS NOT NULL;

-- What happened to items, for ever (or as long as the item).
CREATE TABLE item_log (
    tenant          TEXT COLLATE "C" NOT NULL,
    item            TEXT COLLATE "C" NOT NULL,
    no              BIGINT  NOT NULL,
    at              BIGINT  NOT NULL,
    body            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (item, tenant, no)
);

-- Sums, added to by every change: reading them looks at no assignment. By person, so that those who work at once
-- change different rows; what nobody in particular did has the person ''.
CREATE TABLE queue_totals (
    tenant          TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    person          TEXT COLLATE "C" NOT NULL,
    day             BIGINT  NOT NULL, -- since the epoch
    created         BIGINT  NOT NULL,
    started         BIGINT  NOT NULL,
    completed       BIGINT  NOT NULL,
    skipped         BIGINT  NOT NULL,
    expired_pending BIGINT  NOT NULL,
    expired_started BIGINT  NOT NULL,
    completing_millis BIGINT NOT NULL,
    completed_attempts BIGINT NOT NULL,
    items_imported  BIGINT  NOT NULL,
    items_done      BIGINT  NOT NULL,
    items_failed    BIGINT  NOT NULL,
    items_withdrawn BIGINT  NOT NULL,
    items_escalated BIGINT  NOT NULL,
    PRIMARY KEY (tenant, queue, person, day)
) WITH (fillfactor = 50);

CREATE INDEX queue_totals_person ON queue_totals (person, tenant, queue);
