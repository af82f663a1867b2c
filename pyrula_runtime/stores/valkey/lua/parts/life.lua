-- What goes with a change of status: the listings and, at an end, those who wait for it.
-- `rare` is what few runs have (see births); it says in which other listings the run stands.
local function relist(id, before, after, name, rare)
  if before == after then return end
  local workflow = string.match(name, '^[^|]*')
  call('ZREM', T .. 'l:' .. before .. ':' .. workflow, id)
  call('ZADD', T .. 'l:' .. after .. ':' .. workflow, 0, id)
  if rare then
    local whose = cjson.decode(rare)
    for at, listing in pairs({[2] = 'lp:', [3] = 'lf:'}) do
      if whose[at] ~= '' then
        call('ZREM', T .. listing .. before .. ':' .. whose[at], id)
        call('ZADD', T .. listing .. after .. ':' .. whose[at], 0, id)
      end
    end
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
