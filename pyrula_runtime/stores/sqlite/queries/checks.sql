-- name: ready_and_held
SELECT 'run ' || id || ' is both claimable and held' FROM run WHERE ready > 0 AND lock_until IS NOT NULL

-- name: wrong_line
SELECT 'run ' || id || ' is claimable as what it is not: a suspect, or none' FROM run WHERE ready > 0 AND ready <> 1 + suspect

-- name: half_held
SELECT 'run ' || id || ' has a holder without a lock, or a lock without a holder' FROM run
WHERE (owner IS NULL) <> (lock_until IS NULL) OR (owner IS NOT NULL AND nonce IS NULL)

-- name: ended_but_alive
SELECT 'run ' || id || ' is ' || status || ', yet claimable or held' FROM run
WHERE status IN (SELECT value FROM json_each(?1)) AND (ready > 0 OR lock_until IS NOT NULL)

-- name: journal
SELECT 'run ' || id || ' says ' || journal_len || ' journal entries of ' || journal_bytes || ' bytes, there are '
    || count(seq) || ' up to position ' || coalesce(max(seq), -1) || ' of ' || coalesce(sum(length(body)), 0) || ' bytes'
FROM run LEFT JOIN journal ON run = n
GROUP BY n
HAVING count(seq) <> journal_len OR coalesce(max(seq), -1) <> journal_len - 1
    OR coalesce(sum(length(body)), 0) <> journal_bytes

-- name: inbox
SELECT 'run ' || id || ' says ' || inbox_len || ' messages, there are ' || count(seq)
FROM run LEFT JOIN inbox ON run = n
GROUP BY n
HAVING count(seq) <> inbox_len OR coalesce(max(seq), 0) <> inbox_len

-- name: waits
SELECT 'run ' || id || ' waits, yet is claimable or held' FROM run
WHERE (due_ms IS NOT NULL OR hears) AND (ready > 0 OR lock_until IS NOT NULL)

-- name: kin
SELECT 'run ' || id || ' has a parent without an operation, or an operation without a parent' FROM run
JOIN document ON run = n
WHERE (parent IS NULL) <> (parent_op IS NULL) OR (parent IS NULL) <> (on_end IS NULL)

-- name: facts
SELECT 'run ' || run || ' has told ' || count(*) || ' facts up to number ' || max(seq) FROM fact
GROUP BY run
HAVING count(*) <> max(seq)

-- name: events
SELECT 'event ' || id || ' says that ' || pending || ' workflows have still to take it, there are ' || count(event)
FROM event LEFT JOIN event_for ON event = n
GROUP BY n
HAVING count(event) <> max(pending, 0)

-- name: lost_documents
SELECT 'run ' || id || ' has lost its input' FROM run WHERE NOT EXISTS (SELECT 1 FROM document WHERE run = n)

-- name: strays
SELECT 'there are ' || what || ' of a run that does not exist (' || run || ')' FROM (
    SELECT 'journal entries' AS what, run FROM journal
    UNION SELECT 'messages', run FROM inbox
    UNION SELECT 'facts', run FROM fact
    UNION SELECT 'documents', run FROM document
    UNION SELECT 'dossiers', run FROM dossier
)
WHERE run NOT IN (SELECT n FROM run)
