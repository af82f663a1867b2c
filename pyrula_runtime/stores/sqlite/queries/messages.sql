-- name: run
SELECT n, status, inbox_len, hears, owner IS NOT NULL FROM run WHERE id = ?1

-- name: seen
SELECT 1 FROM inbox WHERE run = ?1 AND message_id = ?2

-- name: put
INSERT INTO inbox (run, seq, message_id, name, body) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: count
UPDATE run SET inbox_len = inbox_len + 1 WHERE n = ?1

-- name: consume
UPDATE inbox SET body = NULL WHERE run = ?1 AND seq = ?2

-- name: open
SELECT seq, message_id, name, body FROM inbox INDEXED BY inbox_open
WHERE run = ?1 AND seq > ?2 AND body IS NOT NULL
ORDER BY seq

-- name: number
SELECT n FROM run WHERE id = ?1
