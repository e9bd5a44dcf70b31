-- The oldest release that may run on these tables; raised by `millstream migrate --finish` alone.
INSERT INTO settings (key, value) VALUES ('oldest_release', '0.1.0');
