-- A new run, from ARGV: id, workflow, version ('' none), status, digest, input; for one with a key: its bucket ('' no key),
-- the key's digest, the input's digest (16 bytes), ttl, number of shards by which it was placed ('' do not ask); for one
-- that is more than plain: priority, start ('' at once), what few runs have ('' nothing), journal.
-- What few runs have is a JSON list: generation, parent, schedule (each '' none), what becomes of it when the parent
-- ends, the parent's operation.
-- Law: one run per id and per living key; the key's record is part of the same write; a conflict leaves no trace.
local function create(at, count, wall)
  local id, workflow, version, status, digest, input, bucket, key, same, ttl, shards, priority, start, rare =
    unpack(ARGV, at, at + math.min(count, 14) - 1)
  local keep
  if bucket and bucket ~= '' then
    -- uses: keys
    if is_displaced(shards) then return {'moved', ''} end
    local answer = answered_by(bucket, key, same, wall)
    if answer then return answer end
    keep = keep_key
  end
  local run = T .. 'r:' .. id
  local there = call('HGET', run, 'd')
  if there then
    return {there == digest and 'existing' or 'conflict', id}
  end
  local place, name = call('INCR', T .. 'n'), workflow
  if version ~= '' then
    -- uses: pins
    name = workflow .. '|' .. version
    count_pinned(name, 1)
  end
  if priority then place = place - priority * FRONT end
  local is_late = start and start ~= ''
  call('HSET', run, 'w', name, 's', status, 'n', place, 'r', 1, 'f', 0, 'd', digest, 't', wall, 'q', is_late and '' or '1')
  call('SET', T .. 'i:' .. id, input)
  call('ZADD', T .. 'l:' .. status .. ':' .. workflow, 0, id)
  call('SADD', T .. 'w', workflow)
  if keep then keep(bucket, key, same, ttl, wall, id) end
  if priority and rare ~= '' then
    local r = cjson.decode(rare)
    call('HSET', run, 'i', rare)
    if r[2] ~= '' then call('ZADD', T .. 'lp:' .. status .. ':' .. r[2], 0, id) end
    if r[3] ~= '' then call('ZADD', T .. 'lf:' .. status .. ':' .. r[3], 0, id) end
  end
  if count > 14 then
    -- uses: journal
    call('HSET', run, 'b', append(id, at + 14, count - 14))
  end
  if is_late then
    -- uses: timers
    call('HSET', run, 'a', start)
    wait_until(tonumber(start), id, place, status, wall)
  else
    stand_in_line(id, place, line_of(name, false))
  end
  return {'created', id}
end
