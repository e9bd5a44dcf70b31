-- What others are to be told of runs and items. Written with what happened, for nobody yet (the sink ''); then
-- there is a row for each sink, which is gone when the sink has heard it.
CREATE TABLE notices (
    position        INTEGER NOT NULL, -- the same for all sinks
    sink            TEXT    NOT NULL,
    tenant          TEXT    NOT NULL,
    family          TEXT    NOT NULL, -- run, item
    subject         TEXT    NOT NULL, -- its id
    kind            TEXT    NOT NULL,
    body            TEXT    NOT NULL, -- JSON
    at              INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    PRIMARY KEY (sink, position)
) STRICT;

CREATE INDEX notices_due ON notices (sink, due_at, position);
CREATE INDEX notices_subject ON notices (sink, subject, tenant, family, position);
CREATE INDEX notices_at ON notices (at);

-- The last position that was given out: rows go, and their positions never come again.
CREATE TABLE notice_positions (
    last            INTEGER NOT NULL
) STRICT;

INSERT INTO notice_positions (last) VALUES (0);
