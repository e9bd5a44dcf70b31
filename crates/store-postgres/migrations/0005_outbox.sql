-- Where each sink is with what it is to hear of an execution; gone when it has heard everything.
CREATE TABLE outbox (
    sink            TEXT COLLATE "C" NOT NULL,
    tenant          TEXT COLLATE "C" NOT NULL,
    execution_id    TEXT COLLATE "C" NOT NULL,
    told            BIGINT  NOT NULL, -- the position in the feed up to which it has heard
    part            BIGINT  NOT NULL, -- and so many things of the entry after it
    upto            BIGINT  NOT NULL, -- the last position that it is to hear
    waiting         BIGINT  NOT NULL, -- entries between the two
    since           BIGINT  NOT NULL, -- none of them is older
    due_at          BIGINT  NOT NULL,
    attempts        BIGINT  NOT NULL,
    PRIMARY KEY (execution_id, tenant, sink)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX outbox_due ON outbox (sink, due_at);
