-- Write journal entries of a turn that goes on: the commit that is called most, and nothing it has no use for.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, id, fence, nonce, position, ttl, entries.
-- Result: {'done' | 'duplicate' | 'fenced' | 'gap', length, 2 for each message that came and 1 more if a cancellation was
-- requested}.
-- Law: a position is written once, under a living token; a repeated call changes nothing.
local _, mono = sign_of_life()
local _, id, fence, nonce, at, ttl = unpack(ARGV, 1, 6)
local run, journal, count = T .. 'r:' .. id, T .. 'j:' .. id, #ARGV - 6
local r = call('HMGET', run, 'f', 'k', 'o', 'l', 'c', 'b')
local length, came = call('LLEN', journal), tonumber(r[5] or 0)
at = tonumber(at)
if r[1] ~= fence or r[2] ~= nonce or not r[3] or r[3] == '' then return {'fenced', length, came} end
if length < at then return {'gap', length, came} end
if length > at then
  local there = call('LRANGE', journal, at, at + count - 1)
  for i = 1, count do
    if there[i] ~= ARGV[6 + i] then return {'fenced', length, came} end
  end
  if at < tonumber(r[4]) then return {'fenced', length, came} end
  call('ZADD', T .. 'a', mono + ttl, id)
  return {'duplicate', length, came}
end
if count > 0 then
  local size = r[6] or 0
  for i = 7, #ARGV do size = size + #ARGV[i] end
  for i = 7, #ARGV, 5000 do
    call('RPUSH', journal, unpack(ARGV, i, math.min(i + 4999, #ARGV)))
  end
  call('HSET', run, 'b', size)
end
call('ZADD', T .. 'a', mono + ttl, id)
return {'done', length + count, came}
