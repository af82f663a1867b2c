-- Begin to use a store: prove that scripts may do what they have to, and hear or say how many shards there are.
-- uses: clock rights
-- KEYS[1] tag of the first shard. ARGV: clock, schema version, number of shards wanted ('' as it is), number for a new
-- store, number that all shards have been told ('' none).
-- Result: {schema version of the store, number, highest number ever, whether all shards know it, then former numbers and
-- when each was given up}.
-- Law: the first to come writes the version and the first sign of life; who comes later changes nothing but the number,
-- if he wants another. What was kept before there were numbers is in one shard.
check_permitted()
local wall, mono, last, offset = read_clock()
local layout, wanted = T .. 's', ARGV[3]
if last == 0 then call('HSET', T .. 'c', 'a', mono, 'o', offset) end
if not call('HGET', T .. 'c', 'v') then
  -- new, or emptied under those who use it: then there are signs of life and no version
  call('HSET', T .. 'c', 'v', ARGV[2])
  local count = wanted ~= '' and wanted or ARGV[4]
  call('HSET', layout, 'count', count, 'most', count, 'told', count)
end
local l = call('HMGET', layout, 'count', 'most')
local count, most = l[1] or '1', l[2] or '1'
if not l[1] then call('HSET', layout, 'count', count, 'most', most, 'told', count) end
if wanted ~= '' and wanted ~= count then
  call('HSET', layout, 'former:' .. count, wall, 'count', wanted, 'told', '')
  call('HDEL', layout, 'former:' .. wanted)
  count = wanted
  if tonumber(count) > tonumber(most) then
    most = count
    call('HSET', layout, 'most', most)
  end
end
if ARGV[5] == count then call('HSET', layout, 'told', count) end
call('PUBLISH', T .. 'begin', '')
local answer = {call('HGET', T .. 'c', 'v'), tonumber(count), tonumber(most),
  call('HGET', layout, 'told') == count and 1 or 0}
local all = call('HGETALL', layout)
for i = 1, #all, 2 do
  local former = string.match(all[i], '^former:(%d+)$')
  if former then
    answer[#answer + 1] = tonumber(former); answer[#answer + 1] = tonumber(all[i + 1])
  end
end
return answer
