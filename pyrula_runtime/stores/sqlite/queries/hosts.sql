-- name: seat
SELECT boot_id, machine_id, name, beat FROM host

-- name: first
INSERT INTO host (one, boot_id, machine_id, name, beat, alive_ms, silence_ms) VALUES (1, ?1, ?2, ?3, 0, ?4, 0)

-- name: take_over
UPDATE host SET boot_id = ?1, machine_id = ?2, name = ?3, beat = beat + 1, alive_ms = ?4, silence_ms = 0

-- name: end_locks
UPDATE run SET lock_until = -1 WHERE lock_until IS NOT NULL

-- name: forget_workers
DELETE FROM worker

-- name: leave
DELETE FROM host
