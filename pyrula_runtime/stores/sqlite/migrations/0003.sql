-- Waiting. A run that waits for a time has `due_ms`, one that a message sends on `hears`; both are empty as soon as it is
-- claimable or held, so the clerk's question for what is due is a search in `run_due`.
ALTER TABLE run ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN due_ms INTEGER;
ALTER TABLE run ADD COLUMN hears INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
ALTER TABLE run ADD COLUMN parent TEXT;
ALTER TABLE run ADD COLUMN schedule TEXT;
DROP INDEX run_ready;
CREATE INDEX run_ready ON run (workflow, version, priority DESC) WHERE ready = 1;
DROP INDEX run_suspects;
CREATE INDEX run_suspects ON run (ready, workflow, version, priority DESC) WHERE ready = 2;
CREATE INDEX run_due ON run (status, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX run_children ON run (parent, status, id) WHERE parent IS NOT NULL;
CREATE INDEX run_fired ON run (schedule, status, id) WHERE schedule IS NOT NULL;

-- what is written once, or shown to people, stays out of the hot table
ALTER TABLE document ADD COLUMN start_at_ms INTEGER;
ALTER TABLE document ADD COLUMN parent_op TEXT;
ALTER TABLE document ADD COLUMN on_end TEXT;
ALTER TABLE document ADD COLUMN shown BLOB;

-- Messages are numbered from 1, so that 0 is before all of them. A consumed one has no body, but keeps its id.
CREATE TABLE message (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB,
    PRIMARY KEY (run, seq),
    UNIQUE (run, message_id)
) WITHOUT ROWID;
INSERT INTO message (run, seq, message_id, name, body) SELECT run, seq + 1, message_id, name, body FROM inbox;
DROP TABLE inbox;
ALTER TABLE message RENAME TO inbox;
CREATE INDEX inbox_open ON inbox (run, seq) WHERE body IS NOT NULL;

CREATE TABLE fact (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- A dropped schedule has no record, but keeps its revision: a host that still means the old one must not hit a new one.
CREATE TABLE schedule (
    id TEXT PRIMARY KEY,
    rev INTEGER NOT NULL,
    record BLOB,
    next_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule (next_ms) WHERE next_ms IS NOT NULL;

CREATE TABLE subscription (
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,             -- empty for none
    name TEXT NOT NULL,
    PRIMARY KEY (workflow, version, name)
) WITHOUT ROWID;
CREATE INDEX subscription_name ON subscription (name, workflow);

CREATE TABLE event (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    body BLOB NOT NULL,                -- empty once it is settled
    ttl_ms INTEGER NOT NULL,
    emitted_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    pending INTEGER NOT NULL           -- how many workflows have still to take it; -1: nobody wants it yet
);
CREATE INDEX event_deferred ON event (name) WHERE pending < 0;
CREATE INDEX event_expiry ON event (expires_ms) WHERE pending = 0;

CREATE TABLE event_for (
    workflow TEXT NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (workflow, event)
) WITHOUT ROWID;
CREATE INDEX event_for_age ON event_for (event, workflow);
