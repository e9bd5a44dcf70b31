-- Sums of people's work by day: where all queues stand is read from the days that are not over.
--
-- The same as migrations/postgres/0009_standings.sql.

CREATE INDEX queue_totals_day ON queue_totals (day, tenant, queue);
