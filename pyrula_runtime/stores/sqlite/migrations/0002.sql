-- What is held against a run (core.blame) takes the place of bare times of charges. Most runs have nothing against them,
-- so it has rows of its own, and `run` stays small. `ready` = 2 is claimable by those alone who ask for suspects.
ALTER TABLE run ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;
-- `ready` comes first so that counting is a search; it is the same in every row
CREATE INDEX run_suspects ON run (ready, workflow, version) WHERE ready = 2;

CREATE TABLE dossier (
    run INTEGER PRIMARY KEY,
    record BLOB NOT NULL
);

INSERT INTO dossier (run, record)
SELECT n, CAST(json_object('charges', json((
    SELECT json_group_array(json_object(
        'at_ms', value, 'evidence', json_object('at_ms', value, 'cause', 'killed', 'worker', '')
    ))
    FROM json_each(charges_ms)
))) AS BLOB)
FROM run WHERE charges_ms <> '[]';
ALTER TABLE run DROP COLUMN charges_ms;
