-- name: extend
UPDATE run
SET journal_len = journal_len + ?5, journal_bytes = journal_bytes + ?6, lock_until = ?7
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND journal_len = ?4 AND owner IS NOT NULL
RETURNING n, cancel_requested

-- name: end
UPDATE run
SET journal_len = journal_len + ?5, journal_bytes = journal_bytes + ?6, lock_until = NULL, owner = NULL,
    status = ?7, rev = rev + 1, finished_ms = coalesce(?8, finished_ms)
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND journal_len = ?4 AND owner IS NOT NULL
RETURNING n, cancel_requested

-- name: outcome
UPDATE document SET result = ?2, error = ?3 WHERE run = ?1

-- name: standing
SELECT n, fence, nonce, owner IS NOT NULL, claim_len, journal_len, cancel_requested, status FROM run WHERE id = ?1

-- name: ended_with
SELECT 1 FROM document WHERE run = ?1 AND result IS ?2 AND error IS ?3

-- name: keep_lock
UPDATE run SET lock_until = ?2 WHERE n = ?1
