-- name: cancel
UPDATE run SET cancel_requested = 1, rev = rev + 1
WHERE id = ?1 AND cancel_requested = 0 AND status IN (SELECT value FROM json_each(?2))
RETURNING n, status, owner IS NOT NULL
