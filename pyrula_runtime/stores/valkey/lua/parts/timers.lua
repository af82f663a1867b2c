-- Times that runs wait for: `t:<status>`; `ta` is when whoever makes the timer round will look again at the latest.
-- Law: a time before that is told, so nobody has to look in between.
local function wait_until(due, id, place, status, wall)
  call('ZADD', T .. 't:' .. status, due, by_place(place, id))
  local awaited = call('GET', T .. 'ta')
  if not awaited or due < tonumber(awaited) or tonumber(awaited) <= wall then
    call('SET', T .. 'ta', due)
    call('PUBLISH', T .. 'timer', '')
  end
end

local function wait_no_more(id, place, status)
  call('ZREM', T .. 't:' .. status, by_place(place, id))
end
