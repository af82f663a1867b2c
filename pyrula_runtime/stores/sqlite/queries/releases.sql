-- name: release
UPDATE run
SET ready = ?5 * (1 + coalesce(?6, suspect)), status = ?4, rev = rev + 1, nonce = NULL, owner = NULL, lock_until = NULL,
    suspect = coalesce(?6, suspect), finished_ms = coalesce(?7, finished_ms)
WHERE id = ?1 AND fence = ?2 AND nonce = ?3 AND owner IS NOT NULL
RETURNING n

-- name: error
UPDATE document SET error = ?2 WHERE run = ?1

-- name: standing
SELECT n, owner IS NOT NULL, journal_len FROM run WHERE id = ?1 AND rev = ?2

-- name: let_go
UPDATE run SET nonce = NULL, owner = NULL, lock_until = NULL WHERE n = ?1

-- name: amend
UPDATE run
SET rev = rev + 1, status = coalesce(?2, status),
    ready = coalesce(?3, ready > 0) * (1 + coalesce(?5, suspect)), suspect = coalesce(?5, suspect),
    cancel_requested = coalesce(?4, cancel_requested),
    due_ms = CASE WHEN ?2 IS NULL AND ?3 IS NOT 1 THEN due_ms ELSE ?9 END,
    hears = CASE WHEN ?2 IS NULL AND ?3 IS NOT 1 THEN hears ELSE 0 END,
    journal_len = journal_len + ?6, journal_bytes = journal_bytes + ?7, finished_ms = coalesce(?8, finished_ms)
WHERE n = ?1

-- name: clear_time
UPDATE run SET finished_ms = NULL WHERE n = ?1

-- name: clear_outcome
UPDATE document SET result = NULL, error = NULL WHERE run = ?1
