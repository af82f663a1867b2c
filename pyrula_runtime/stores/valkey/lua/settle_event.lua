-- Take an event for a workflow, with the run that comes of it.
-- uses: clock lines life places timers going effects
-- KEYS[1] tag. ARGV: clock, event id, workflow, effects (see effects).
-- Result: 1, or 0 if that was settled before, or is not for it.
-- Law: once per event and workflow; one that all have taken is forgotten when its time to live is over, not before.
local wall = sign_of_life()
local _, id, workflow = unpack(ARGV, 1, 3)
local event = T .. 'e:' .. id
local takers = call('HGET', event, 'w') or '|'
local from, upto = string.find(takers, '|' .. workflow .. '|', 1, true)
if not from then return 0 end
perform(4, wall)
takers = string.sub(takers, 1, from) .. string.sub(takers, upto + 1)
call('HSET', event, 'w', takers)
call('ZREM', T .. 'ep:' .. workflow, id)
if takers == '|' then
  local e = call('HMGET', event, 'p', 't', 'l')
  call('ZREM', T .. 'ep', id)
  call('HSET', event, 'b', '')
  call('ZADD', T .. 'ex', e[2] + e[3], by_place(e[1], id))
end
return 1
