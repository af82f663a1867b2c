-- name: extend
UPDATE run
SET journal_len = journal_len + ?5, journal_bytes = journal_bytes + ?6, lock_until = ?7
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND journal_len = ?4 AND owner IS NOT NULL
RETURNING n, cancel_requested, inbox_len

-- name: end
UPDATE run
SET journal_len = journal_len + ?5, journal_bytes = journal_bytes + ?6, lock_until = NULL, owner = NULL,
    status = ?7, rev = rev + 1, finished_ms = coalesce(?8, finished_ms)
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND journal_len = ?4 AND owner IS NOT NULL
RETURNING n, cancel_requested, inbox_len

-- name: suspend
UPDATE run
SET journal_len = journal_len + ?5, journal_bytes = journal_bytes + ?6, lock_until = NULL, owner = NULL,
    status = ?7, rev = rev + 1, due_ms = ?8, hears = ?9, awaits = ?10
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND journal_len = ?4 AND owner IS NOT NULL
RETURNING n, cancel_requested, inbox_len

-- name: again
UPDATE run
SET journal_len = 0, journal_bytes = 0, claim_len = 0, started_ms = NULL, generation = generation + 1,
    lock_until = NULL, owner = NULL, status = ?5, rev = rev + 1
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND journal_len = ?4 AND owner IS NOT NULL
RETURNING n, cancel_requested, inbox_len

-- name: new_input
UPDATE document SET input = ?2 WHERE run = ?1

-- name: show
UPDATE document SET shown = ?2 WHERE run = ?1

-- name: outcome
UPDATE document SET result = ?2, error = ?3 WHERE run = ?1

-- name: standing
SELECT n, fence, nonce, owner IS NOT NULL, claim_len, journal_len, cancel_requested, inbox_len, status FROM run WHERE id = ?1

-- name: ended_with
SELECT 1 FROM document WHERE run = ?1 AND result IS ?2 AND error IS ?3

-- name: goes_on_with
SELECT 1 FROM document WHERE run = ?1 AND input = ?2

-- name: keep_lock
UPDATE run SET lock_until = ?2 WHERE n = ?1
