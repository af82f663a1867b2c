-- What goes with a change of status: the listings and, at an end, those who wait for it.
local function relist(id, workflow, before, after)
  if before ~= after then
    call('ZREM', T .. 'l:' .. before .. ':' .. workflow, id)
    call('ZADD', T .. 'l:' .. after .. ':' .. workflow, 0, id)
  end
end

local function let_go(id, owner)
  call('ZREM', T .. 'a', id)
  call('ZREM', T .. 'h:' .. owner, id)
end

local function tell_holder(owner)
  call('PUBLISH', T .. 'attention', owner)
end

local function ended(id, status, wall)
  call('ZADD', T .. 'd:' .. status, wall, id)
  call('PUBLISH', T .. 'ended', id)
end
