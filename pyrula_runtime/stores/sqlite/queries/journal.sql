-- name: page
SELECT body FROM journal WHERE run = ?1 AND seq >= ?2 ORDER BY seq

-- name: append
INSERT INTO journal (run, seq, body) VALUES (?1, ?2, ?3)

-- name: number
SELECT n FROM run WHERE id = ?1

-- name: clear
DELETE FROM journal WHERE run = ?1
