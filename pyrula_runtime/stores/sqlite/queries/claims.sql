-- name: unpinned
SELECT -priority, n FROM run WHERE ready = 1 AND workflow = ?1 AND version IS NULL ORDER BY priority DESC, n LIMIT ?2

-- name: pinned
SELECT -priority, n FROM run WHERE ready = 1 AND workflow = ?1 AND version = ?3 ORDER BY priority DESC, n LIMIT ?2

-- name: unpinned_suspects
SELECT -priority, n FROM run WHERE ready = 2 AND workflow = ?1 AND version IS NULL ORDER BY priority DESC, n LIMIT ?2

-- name: pinned_suspects
SELECT -priority, n FROM run WHERE ready = 2 AND workflow = ?1 AND version = ?3 ORDER BY priority DESC, n LIMIT ?2

-- name: suspects
SELECT count(*) FROM run WHERE ready = 2

-- name: take
UPDATE run
SET ready = 0, status = ?2, rev = rev + 1, fence = fence + 1, nonce = ?3, owner = ?4, lock_until = ?5,
    claim_len = journal_len, started_ms = coalesce(started_ms, ?6)
WHERE n = ?1
RETURNING id, fence, workflow, version, journal_len, journal_bytes, created_ms, started_ms, cancel_requested,
    inbox_len, generation, parent, (SELECT record FROM dossier WHERE run = n), suspect, (SELECT input FROM document WHERE run = n)

-- name: link
SELECT parent_op, on_end FROM document WHERE run = ?1

-- name: renew
UPDATE run SET lock_until = ?4 WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND owner IS NOT NULL
RETURNING cancel_requested, inbox_len

-- name: lapsed
SELECT n FROM run WHERE lock_until < ?1 ORDER BY lock_until LIMIT ?2

-- name: reclaim
UPDATE run
SET ready = 1 + suspect, status = ?2, rev = rev + 1, nonce = NULL, owner = NULL, lock_until = NULL
WHERE n = ?1
RETURNING id

-- name: push_out
UPDATE run SET lock_until = ?1 WHERE lock_until < ?1

-- name: holdings
SELECT id, fence, nonce, workflow, (SELECT record FROM dossier WHERE run = n), suspect FROM run INDEXED BY run_lock
WHERE lock_until IS NOT NULL AND owner = ?1
ORDER BY +n
