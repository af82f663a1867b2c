-- All schedules, or those whose time has come.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, 1 for those that are due alone.
-- Result: {now, earliest of all times or false, {id, `<rev>:<record>`, next time or false, and so on}}.
local wall = read_clock()
local soonest, found = tonumber(call('ZRANGE', T .. 'sn', 0, 0, 'WITHSCORES')[2]), {}

local function tell(id, kept)
  found[#found + 1] = id
  found[#found + 1] = kept
  found[#found + 1] = tonumber(call('ZSCORE', T .. 'sn', id) or nil) or false
end

if ARGV[2] == '1' then
  for _, id in ipairs(call('ZRANGEBYSCORE', T .. 'sn', '-inf', wall)) do tell(id, call('HGET', T .. 'sr', id)) end
else
  local all = call('HGETALL', T .. 'sr')
  for at = 1, #all, 2 do
    if string.find(all[at + 1], '^%d+:') then tell(all[at], all[at + 1]) end
  end
end
return {wall, soonest or false, found}
