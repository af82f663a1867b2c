-- The first schema. `n` is a run's place in line and its key in the other tables; it never changes, so a run that is
-- given back stands where it stood: in front of everything that was submitted after it.

-- One row: which host uses the file, a counter that shows it is alive, and the longest time nobody wrote.
CREATE TABLE host (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    machine_id TEXT NOT NULL,
    name TEXT NOT NULL,
    beat INTEGER NOT NULL,        -- grows with each sign of life
    alive_ms INTEGER NOT NULL,    -- monotonic time of the last sign of life
    silence_ms INTEGER NOT NULL   -- longest pause between two signs of life since the last scan for lapsed locks
);

-- Small and hot: rewritten at every commit, so documents of any size live elsewhere.
CREATE TABLE run (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    workflow TEXT NOT NULL,
    version TEXT,
    status TEXT NOT NULL,
    rev INTEGER NOT NULL DEFAULT 1,
    ready INTEGER NOT NULL,            -- 1: claimable
    fence INTEGER NOT NULL DEFAULT 0,
    nonce TEXT,                        -- of the last claim, until another verb than its own ending takes the run from it
    owner TEXT,                        -- incarnation of the holder while held
    lock_until INTEGER,                -- monotonic milliseconds of the boot in `host`, while held
    claim_len INTEGER NOT NULL DEFAULT 0,  -- journal_len at the last claim
    journal_len INTEGER NOT NULL DEFAULT 0,
    journal_bytes INTEGER NOT NULL DEFAULT 0,
    inbox_len INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    charges_ms TEXT NOT NULL DEFAULT '[]',
    digest TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    finished_ms INTEGER
);
CREATE INDEX run_ready ON run (workflow, version) WHERE ready = 1;
CREATE INDEX run_lock ON run (lock_until) WHERE lock_until IS NOT NULL;
CREATE INDEX run_listing ON run (workflow, status, id);

CREATE TABLE document (
    run INTEGER PRIMARY KEY,
    input BLOB NOT NULL,
    result BLOB,
    error BLOB
);

-- The primary key is the compare-and-append: a position is written once.
CREATE TABLE journal (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

CREATE TABLE inbox (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, seq),
    UNIQUE (run, message_id)
) WITHOUT ROWID;

CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    expires_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_ms);

CREATE TABLE worker (
    incarnation TEXT PRIMARY KEY,
    worker_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    serves TEXT NOT NULL,
    capacity INTEGER NOT NULL,
    running INTEGER NOT NULL,
    draining INTEGER NOT NULL,
    beat_ms INTEGER NOT NULL           -- monotonic
) WITHOUT ROWID;
