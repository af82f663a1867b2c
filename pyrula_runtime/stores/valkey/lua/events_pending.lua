-- Events that have still to be taken.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, limit, first place, workflows, or '*' for all, and for those that nobody wants yet.
-- Result: {place, workflow ('' nobody wants it yet), id, name, body, ttl, time} of each, up to the limit of each workflow.
local found, limit, first = {}, tonumber(ARGV[2]), ARGV[3]

local function tell(id, place, workflow)
  local e = call('HMGET', T .. 'e:' .. id, 'n', 'b', 'l', 't')
  found[#found + 1] = {tonumber(place), workflow, id, e[1], e[2], tonumber(e[3]), tonumber(e[4])}
end

local function each(pending, tell_one)
  if limit < 1 then return end
  local some = call('ZRANGEBYSCORE', T .. pending, first, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  for at = 1, #some, 2 do tell_one(some[at], some[at + 1]) end
end

if ARGV[4] == '*' then
  each('ep', function(id, place)
    local takers = call('HGET', T .. 'e:' .. id, 'w')
    if not takers then return tell(id, place, '') end
    for workflow in string.gmatch(takers, '[^|]+') do tell(id, place, workflow) end
  end)
  return found
end
for at = 4, #ARGV do
  each('ep:' .. ARGV[at], function(id, place) tell(id, place, ARGV[at]) end)
end
return found
