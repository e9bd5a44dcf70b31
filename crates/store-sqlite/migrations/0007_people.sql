-- People: queues of work, the items in them, and who was given what.
--
-- The same tables, columns, order and names as migrations/postgres/0007_people.sql.

CREATE TABLE queues (
    tenant          TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    config          TEXT    NOT NULL, -- JSON, with its format
    state           TEXT    NOT NULL CHECK (state = 'active' OR state = 'paused'),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue)
) STRICT;

CREATE TABLE people (
    tenant          TEXT    NOT NULL,
    person          TEXT    NOT NULL,
    skills          TEXT    NOT NULL, -- JSON array of names
    state           TEXT    NOT NULL CHECK (state = 'active' OR state = 'paused'),
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, person)
) STRICT;

-- Sets of skills that items of a queue ask for: numbered within the queue, never changed.
CREATE TABLE skill_sets (
    tenant          TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    set_id          INTEGER NOT NULL,
    skills          TEXT    NOT NULL, -- JSON array of names, in order
    PRIMARY KEY (tenant, queue, set_id)
) STRICT;

CREATE UNIQUE INDEX skill_sets_skills ON skill_sets (tenant, queue, skills);

-- Of items that wait in line, and of imports.
CREATE TABLE standing (
    last            INTEGER NOT NULL
) STRICT;

INSERT INTO standing (last) VALUES (0);

CREATE TABLE items (
    tenant          TEXT    NOT NULL,
    item            TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    position        INTEGER NOT NULL, -- in the order of import
    due_at          INTEGER,
    ended_at        INTEGER,
    body            TEXT    NOT NULL, -- JSON, with its format
    payload         TEXT    NOT NULL, -- JSON, never changed
    PRIMARY KEY (tenant, item)
) STRICT;

CREATE INDEX items_position ON items (tenant, position);
CREATE INDEX items_queue ON items (tenant, queue, position);
CREATE INDEX items_status ON items (tenant, queue, status, position);
CREATE INDEX items_due ON items (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX items_ended ON items (ended_at) WHERE ended_at IS NOT NULL;

-- Items with openings, in the order in which they are given out: one row for all openings of an item. Who may not
-- have it is in the row, so that looking for the next one joins nothing.
CREATE TABLE openings (
    tenant          TEXT    NOT NULL,
    item            TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    set_id          INTEGER NOT NULL,
    urgency         INTEGER NOT NULL, -- the priority, negated
    class           INTEGER NOT NULL, -- 0 somebody had it, 1 nobody had it
    position        INTEGER NOT NULL,
    needs           INTEGER NOT NULL,
    barred          TEXT    NOT NULL, -- JSON array of people
    PRIMARY KEY (tenant, item)
) STRICT;

CREATE INDEX openings_line ON openings (tenant, queue, urgency, class, position);
CREATE INDEX openings_set ON openings (tenant, queue, set_id, urgency, class, position);

CREATE TABLE assignments (
    tenant          TEXT    NOT NULL,
    assignment      BLOB    NOT NULL,
    item            TEXT    NOT NULL,
    person          TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    is_open         INTEGER NOT NULL,
    due_at          INTEGER,
    body            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (tenant, assignment)
) STRICT;

CREATE INDEX assignments_item ON assignments (tenant, item, assignment);
CREATE INDEX assignments_person ON assignments (tenant, person, assignment);
CREATE INDEX assignments_status ON assignments (tenant, queue, status, assignment);
CREATE INDEX assignments_open ON assignments (tenant, person) WHERE is_open;
CREATE INDEX assignments_due ON assignments (due_at) WHERE due_at IS NOT NULL;

-- What happened to items, for ever (or as long as the item).
CREATE TABLE item_log (
    tenant          TEXT    NOT NULL,
    item            TEXT    NOT NULL,
    no              INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    body            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (tenant, item, no)
) STRICT;

-- Sums, added to by every change: reading them looks at no assignment. What nobody in
-- particular did has the person ''.
CREATE TABLE queue_totals (
    tenant          TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    person          TEXT    NOT NULL,
    day             INTEGER NOT NULL, -- since the epoch
    created         INTEGER NOT NULL,
    started         INTEGER NOT NULL,
    completed       INTEGER NOT NULL,
    skipped         INTEGER NOT NULL,
    expired_pending INTEGER NOT NULL,
    expired_started INTEGER NOT NULL,
    completing_millis INTEGER NOT NULL,
    completed_attempts INTEGER NOT NULL,
    items_imported  INTEGER NOT NULL,
    items_done      INTEGER NOT NULL,
    items_failed    INTEGER NOT NULL,
    items_withdrawn INTEGER NOT NULL,
    items_escalated INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, person, day)
) STRICT;

CREATE INDEX queue_totals_person ON queue_totals (tenant, person, queue);
