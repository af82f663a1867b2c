-- name: look
SELECT n FROM run
WHERE status = ?1 AND finished_ms <= ?2 AND NOT EXISTS (
    SELECT 1 FROM run AS parent WHERE parent.id = run.parent AND parent.finished_ms IS NULL
)
ORDER BY finished_ms LIMIT ?3

-- name: run
DELETE FROM run WHERE n = ?1 AND status = ?2 AND finished_ms <= ?3 RETURNING n

-- name: document
DELETE FROM document WHERE run = ?1

-- name: journal
DELETE FROM journal WHERE run = ?1

-- name: inbox
DELETE FROM inbox WHERE run = ?1

-- name: dossier
DELETE FROM dossier WHERE run = ?1

-- name: fact
DELETE FROM fact WHERE run = ?1
