-- name: keep
INSERT OR REPLACE INTO dossier (run, record) VALUES (?1, ?2)

-- name: drop
DELETE FROM dossier WHERE run = ?1

-- name: flag
UPDATE run SET suspect = ?2 WHERE n = ?1
