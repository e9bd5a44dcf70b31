-- Runs that have not ended, for counting by tenant from the index alone.
--
-- The same name as in migrations/sqlite/0013_open_runs.sql. The expression comes first, so that no other statement takes
-- this index for its rows (see executions_open); only an end changes ended_at.

CREATE INDEX runs_open ON runs ((tenant || ''), tenant) WHERE ended_at IS NULL;
