-- name: beat
UPDATE host
SET beat = beat + 1, silence_ms = max(silence_ms, ?1 - alive_ms), alive_ms = ?1
WHERE one = 1

-- name: silence
SELECT silence_ms FROM host

-- name: heard
UPDATE host SET silence_ms = 0

-- name: alive
SELECT alive_ms FROM host
