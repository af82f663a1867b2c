-- name: beat
INSERT OR REPLACE INTO worker (incarnation, worker_id, pid, host, serves, capacity, running, draining, beat_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: forget
DELETE FROM worker WHERE beat_ms < ?1

-- name: retire
DELETE FROM worker WHERE incarnation = ?1

-- name: all
SELECT incarnation, worker_id, pid, host, serves, capacity, running, draining, beat_ms FROM worker ORDER BY incarnation
