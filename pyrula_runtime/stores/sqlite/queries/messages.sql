-- name: run
SELECT n, status, inbox_len FROM run WHERE id = ?1

-- name: seen
SELECT 1 FROM inbox WHERE run = ?1 AND message_id = ?2

-- name: put
INSERT INTO inbox (run, seq, message_id, name, body) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: count
UPDATE run SET inbox_len = inbox_len + 1 WHERE n = ?1
