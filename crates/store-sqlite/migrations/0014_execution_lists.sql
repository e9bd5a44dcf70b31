-- Open executions and ended executions, each in the order of lists.
--
-- The same names as in store-postgres/migrations/0014_execution_lists.sql. Every execution is in one of the two indexes, so that
-- both together cost what one index of all executions did, and counting the open ones needs no index of its own.

CREATE INDEX executions_open_list ON executions (tenant, position) WHERE ended_at IS NULL;
CREATE INDEX executions_ended_list ON executions (tenant, position) WHERE ended_at IS NOT NULL;
DROP INDEX executions_open;
DROP INDEX executions_position;
