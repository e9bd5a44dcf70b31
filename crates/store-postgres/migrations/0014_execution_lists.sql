-- Open executions and ended executions, each in the order of lists.
--
-- The same names as in store-sqlite/migrations/0014_execution_lists.sql. Every execution is in one of the two indexes, so that
-- both together cost what one index of all executions did, and counting the open ones needs no index of its own. The
-- tenant is an expression, as it was in executions_position; the column itself is included for counting from the index
-- alone. Only an end changes ended_at.

CREATE INDEX executions_open_list ON executions ((tenant || ''), position) INCLUDE (tenant) WHERE ended_at IS NULL;
CREATE INDEX executions_ended_list ON executions ((tenant || ''), position) WHERE ended_at IS NOT NULL;
DROP INDEX executions_open;
DROP INDEX executions_position;
