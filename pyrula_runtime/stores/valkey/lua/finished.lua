-- Runs that ended long ago, longest first.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, milliseconds since the end, limit, statuses.
-- Result: {id, status, revision, id of the parent or false} of each.
local wall = read_clock()
local found = {}
for i = 4, #ARGV do
  local list, left = T .. 'd:' .. ARGV[i], ARGV[3] - #found
  for _, id in ipairs(left > 0 and call('ZRANGEBYSCORE', list, '-inf', wall - ARGV[2], 'LIMIT', 0, left) or {}) do
    local r = call('HMGET', T .. 'r:' .. id, 'r', 'i')
    local parent = r[2] and cjson.decode(r[2])[2]
    found[#found + 1] = {id, ARGV[i], r[1] or '', parent ~= '' and parent or false}
  end
end
return found
