-- Where each sink is with what it is to hear of an execution; gone when it has heard everything.
CREATE TABLE outbox (
    sink            TEXT    NOT NULL,
    tenant          TEXT    NOT NULL,
    execution_id    TEXT    NOT NULL,
    told            INTEGER NOT NULL, -- the position in the feed up to which it has heard
    part            INTEGER NOT NULL, -- and so many things of the entry after it
    upto            INTEGER NOT NULL, -- the last position that it is to hear
    waiting         INTEGER NOT NULL, -- entries between the two
    since           INTEGER NOT NULL, -- none of them is older
    due_at          INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    PRIMARY KEY (tenant, execution_id, sink)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_due ON outbox (sink, due_at);
