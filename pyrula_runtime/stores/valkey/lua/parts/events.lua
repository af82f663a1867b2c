-- A new event, from ARGV: id, name, body, ttl. `w` of an event says which workflows have still to take it, |between|bars|;
-- it has none while nobody wants the event.
-- Law: once per id, for each workflow that is subscribed to its name now.
local function emit(at, _, wall)
  local id, name, body, ttl = unpack(ARGV, at, at + 3)
  if call('EXISTS', T .. 'e:' .. id) == 1 then return 'duplicate' end
  local place = call('INCR', T .. 'n')
  local takers = '|'
  for _, subscriber in ipairs(call('SMEMBERS', T .. 'en:' .. name)) do
    local workflow = string.match(subscriber, '^[^|]*')
    if not string.find(takers, '|' .. workflow .. '|', 1, true) then
      takers = takers .. workflow .. '|'
      call('ZADD', T .. 'ep:' .. workflow, place, id)
    end
  end
  call('HSET', T .. 'e:' .. id, 'n', name, 'b', body, 'l', ttl, 't', wall, 'p', place)
  call('ZADD', T .. 'ep', place, id)
  if takers == '|' then
    call('ZADD', T .. 'ed:' .. name, place, id)
  else
    call('HSET', T .. 'e:' .. id, 'w', takers)
    call('PUBLISH', T .. 'timer', '')
  end
  return 'accepted'
end
