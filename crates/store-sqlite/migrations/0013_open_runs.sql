-- Runs that have not ended, for counting by tenant from the index alone.
--
-- The same name as in migrations/postgres/0013_open_runs.sql. The expression comes first, and a condition that only the
-- statement which counts has, so that no other statement takes this index for its rows (see executions_open).

CREATE INDEX runs_open ON runs ((tenant || ''), tenant) WHERE ended_at IS NULL AND tenant >= '';
