-- Create a run and make it claimable.
-- uses: clock lines keys
-- KEYS[1] tag. ARGV: clock, id, workflow, version ('' none), status, digest, input; with a key: its bucket, the key's
-- digest, the input's digest (16 bytes), ttl, number of shards by which it was placed ('' do not ask).
-- Result: {'created' | 'existing' | 'unmade' | 'conflict' | 'moved', id of the run that answers}.
-- Law: one run per id and per living key; the key's record is part of the same write; a conflict leaves no trace.
local wall = sign_of_life()
local _, id, workflow, version, status, digest, input, bucket, key, same, ttl, count = unpack(ARGV)
if key then
  if is_displaced(count) then return {'moved', ''} end
  local answer = answered_by(bucket, key, same, wall)
  if answer then return answer end
end
local there = call('HGET', T .. 'r:' .. id, 'd')
if there then
  return {there == digest and 'existing' or 'conflict', id}
end
local line = line_of(workflow, version ~= '' and version, false)
local place = call('INCR', T .. 'n')
local run = T .. 'r:' .. id
local facts = {'w', workflow, 's', status, 'n', place, 'r', 1, 'f', 0, 'd', digest, 't', wall, 'q', '1'}
if version ~= '' then facts[#facts + 1] = 'v'; facts[#facts + 1] = version end
call('HSET', run, unpack(facts))
call('SET', T .. 'i:' .. id, input)
call('ZADD', T .. 'l:' .. status .. ':' .. workflow, 0, id)
call('SADD', T .. 'w', workflow)
if key then keep_key(bucket, key, same, ttl, wall, id) end
stand_in_line(id, place, line)
return {'created', id}
