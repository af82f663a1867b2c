-- name: key
SELECT run_id, digest FROM idempotency WHERE key = ?1 AND expires_ms > ?2

-- name: digest
SELECT digest FROM run WHERE id = ?1

-- name: run
INSERT INTO run (id, workflow, version, status, ready, digest, created_ms, priority, due_ms, parent, schedule)
VALUES (?1, ?2, ?3, ?4, ?8 IS NULL, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO NOTHING
RETURNING n

-- name: input
INSERT INTO document (run, input, start_at_ms, parent_op, on_end) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: begin_with
UPDATE run SET journal_len = ?2, journal_bytes = ?3, generation = ?4 WHERE n = ?1

-- name: remember
INSERT OR REPLACE INTO idempotency (key, run_id, digest, expires_ms) VALUES (?1, ?2, ?3, ?4)

-- name: purge
DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)
RETURNING 1
