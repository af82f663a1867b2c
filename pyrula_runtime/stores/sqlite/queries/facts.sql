-- name: tell
INSERT INTO fact (run, seq, at_ms, body)
VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM fact WHERE run = ?1), ?2, ?3)

-- name: after
SELECT seq, at_ms, body FROM fact WHERE run = (SELECT n FROM run WHERE id = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3
