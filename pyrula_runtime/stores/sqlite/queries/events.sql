-- name: subscribed
SELECT name FROM subscription WHERE workflow = ?1 AND version = ?2

-- name: unsubscribe
DELETE FROM subscription WHERE workflow = ?1 AND version = ?2

-- name: subscribe
INSERT INTO subscription (workflow, version, name) VALUES (?1, ?2, ?3)

-- name: deferred_of
SELECT n FROM event WHERE pending < 0 AND name = ?1

-- name: adopt
UPDATE event SET pending = 1 WHERE n = ?1

-- name: keep
INSERT INTO event (id, name, body, ttl_ms, emitted_ms, expires_ms, pending) VALUES (?1, ?2, ?3, ?4, ?5, ?5 + ?4, -1)
ON CONFLICT (id) DO NOTHING
RETURNING n

-- name: share
INSERT INTO event_for (workflow, event) SELECT DISTINCT workflow, ?1 FROM subscription WHERE name = ?2
RETURNING 1

-- name: shared
UPDATE event SET pending = ?2 WHERE n = ?1

-- name: assign
INSERT INTO event_for (workflow, event) VALUES (?1, ?2)

-- name: pending_of
SELECT n, workflow, id, name, body, ttl_ms, emitted_ms FROM event_for JOIN event ON n = event
WHERE workflow = ?1 AND event >= ?2
ORDER BY event LIMIT ?3

-- name: pending
SELECT n, workflow, id, name, body, ttl_ms, emitted_ms FROM event_for JOIN event ON n = event
WHERE (event, workflow) > (?1, ?2)
ORDER BY event, workflow LIMIT ?3

-- name: deferred
SELECT n, '', id, name, body, ttl_ms, emitted_ms FROM event INDEXED BY event_deferred
WHERE pending < 0 AND n > ?1
ORDER BY n LIMIT ?2

-- name: take
DELETE FROM event_for WHERE workflow = ?2 AND event = (SELECT n FROM event WHERE id = ?1)
RETURNING event

-- name: taken
UPDATE event SET pending = pending - 1, body = CASE pending WHEN 1 THEN x'' ELSE body END WHERE n = ?1

-- name: purge
DELETE FROM event WHERE n IN (SELECT n FROM event WHERE pending = 0 AND expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)
RETURNING 1
