-- Make runs claimable whose time has come, and say when to look again.
-- uses: clock memory lines life places timers going
-- KEYS[1] tag. ARGV: clock, limit, then status and where it leads, of each that can be due.
-- Result: {how many went on, when the next is due or false, now}.
-- Law: never early; of equal times the first submitted is first; while nothing is due only `ta` is written, and if it is
-- that already, nothing.
local wall, mono, last = read_clock()
although_full()
check_rights(mono, last)
local left, next_due = tonumber(ARGV[2]), nil
for at = 3, #ARGV, 2 do
  local times = T .. 't:' .. ARGV[at]
  for _, timer in ipairs(call('ZRANGEBYSCORE', times, '-inf', wall, 'LIMIT', 0, left)) do
    local id = string.sub(timer, 12)
    local run = standing(id)
    go_on(id, run, ARGV[at + 1], run[2] + 1)
    left = left - 1
  end
  local head = tonumber(call('ZRANGE', times, 0, 0, 'WITHSCORES')[2])
  if head and (not next_due or head < next_due) then next_due = head end
end
local woken = ARGV[2] - left
if woken > 0 then sign_of_life() end
if tonumber(call('GET', T .. 'ta') or nil) ~= next_due then
  although_full()
  if next_due then call('SET', T .. 'ta', next_due) else call('DEL', T .. 'ta') end
end
return {woken, next_due or false, wall}
