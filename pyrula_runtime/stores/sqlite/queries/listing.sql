-- name: one
SELECT r.id, r.workflow, r.version, r.status, r.rev, r.fence, d.input, d.result, d.error, r.digest, r.journal_len,
    r.journal_bytes, r.inbox_len, r.cancel_requested, o.record, r.suspect, r.created_ms, r.started_ms, r.finished_ms,
    r.owner, r.lock_until, r.priority, d.start_at_ms, r.due_ms, r.parent, d.parent_op, d.on_end, r.schedule,
    r.generation, d.shown, CASE WHEN r.hears THEN coalesce(r.awaits, '') END
FROM run r JOIN document d ON d.run = r.n LEFT JOIN dossier o ON o.run = r.n
WHERE r.id = ?1

-- name: newest
SELECT id FROM run WHERE id < ?1 ORDER BY id DESC LIMIT ?2

-- name: newest_of
SELECT id FROM run WHERE workflow = ?3 AND status = ?4 AND id < ?1 ORDER BY id DESC LIMIT ?2

-- name: children
SELECT id FROM run WHERE parent = ?3 AND status = ?4 AND id < ?1 AND (?5 IS NULL OR workflow = ?5)
ORDER BY id DESC LIMIT ?2

-- name: fired
SELECT id FROM run WHERE schedule = ?3 AND status = ?4 AND id < ?1 AND (?5 IS NULL OR workflow = ?5)
ORDER BY id DESC LIMIT ?2

-- name: workflows
WITH RECURSIVE each(name) AS (
    SELECT min(workflow) FROM run
    UNION ALL
    SELECT (SELECT min(workflow) FROM run WHERE workflow > each.name) FROM each WHERE each.name IS NOT NULL
)
SELECT name FROM each WHERE name IS NOT NULL

-- name: counts
WITH RECURSIVE each(name) AS (
    SELECT min(workflow) FROM run
    UNION ALL
    SELECT (SELECT min(workflow) FROM run WHERE workflow > each.name) FROM each WHERE each.name IS NOT NULL
)
SELECT each.name, wanted.value, (SELECT count(*) FROM run WHERE workflow = each.name AND status = wanted.value)
FROM each CROSS JOIN json_each(?1) AS wanted
WHERE each.name IS NOT NULL

-- name: pins
SELECT workflow, version, count(*) FROM run WHERE version IS NOT NULL AND finished_ms IS NULL GROUP BY workflow, version
