-- In words, for which messages a run waits that `hears`; it means nothing once the run has gone on.
ALTER TABLE run ADD COLUMN awaits TEXT;
