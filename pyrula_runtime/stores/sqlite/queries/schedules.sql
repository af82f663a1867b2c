-- name: first
INSERT INTO schedule (id, rev, record, next_ms) VALUES (?1, 1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET rev = rev + 1, record = ?2, next_ms = ?3 WHERE record IS NULL
RETURNING 1

-- name: move
UPDATE schedule SET rev = rev + 1, record = ?3, next_ms = ?4 WHERE id = ?1 AND rev = ?2 AND record IS NOT NULL
RETURNING 1

-- name: sooner
SELECT 1 FROM schedule WHERE next_ms IS NOT NULL AND next_ms <= ?1 AND id <> ?2 LIMIT 1

-- name: all
SELECT id, rev, record, next_ms FROM schedule WHERE record IS NOT NULL ORDER BY id

-- name: due
SELECT id, rev, record, next_ms FROM schedule WHERE next_ms IS NOT NULL AND next_ms <= ?1 ORDER BY id

-- name: next
SELECT next_ms FROM schedule WHERE next_ms IS NOT NULL ORDER BY next_ms LIMIT 1

-- name: drop
UPDATE schedule SET rev = rev + 1, record = NULL, next_ms = NULL WHERE id = ?1 AND record IS NOT NULL
RETURNING 1
