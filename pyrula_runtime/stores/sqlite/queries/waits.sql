-- name: go_on
UPDATE run SET status = ?2, ready = 1 + suspect, rev = rev + ?3, due_ms = NULL, hears = 0 WHERE n = ?1

-- name: due
UPDATE run
SET status = ?1, ready = 1 + suspect, rev = rev + 1, due_ms = NULL, hears = 0
WHERE n IN (
    SELECT n FROM run WHERE status = ?2 AND due_ms IS NOT NULL AND due_ms <= ?3 ORDER BY due_ms, n LIMIT ?4
)
RETURNING 1

-- name: next
SELECT due_ms FROM run WHERE status = ?1 AND due_ms IS NOT NULL ORDER BY due_ms LIMIT 1

-- name: sooner
SELECT 1 FROM run WHERE status = ?1 AND due_ms IS NOT NULL AND due_ms <= ?2 AND n <> ?3 LIMIT 1
