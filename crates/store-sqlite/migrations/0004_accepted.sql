-- Whether somebody else was to tell the outcome: what is leased again after that is to be given up.
ALTER TABLE actions ADD COLUMN awaited INTEGER NOT NULL DEFAULT 0;
