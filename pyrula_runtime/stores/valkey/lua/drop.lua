-- Drop runs that ended long ago, with all that belongs to them.
-- uses: clock memory
-- KEYS[1] tag. ARGV: clock, then of each run: id, status, revision, 1 to keep it.
-- Result: how many went.
-- Law: a run that is not as it was found stays. One that is kept is looked at again when its time has passed once more, so
-- that it stands in nobody's way. Works when memory is full.
although_full()
local wall = sign_of_life()
local gone = 0

local function drop(id, status, r)
  call('ZREM', T .. 'd:' .. status, id)
  call('ZREM', T .. 'l:' .. status .. ':' .. string.match(r[3], '^[^|]*'), id)
  local rare = r[4] and cjson.decode(r[4]) or {1, '', ''}
  call('ZREM', T .. 'lp:' .. status .. ':' .. rare[2], id)
  call('ZREM', T .. 'lf:' .. status .. ':' .. rare[3], id)
  for _, what in ipairs({'i:', 'o:', 'j:', 'm:', 'ms:', 'f:', 'r:'}) do call('UNLINK', T .. what .. id) end
  gone = gone + 1
end

for i = 2, #ARGV, 4 do
  local id, status, rev, keep = unpack(ARGV, i, i + 3)
  local r = call('HMGET', T .. 'r:' .. id, 's', 'r', 'w', 'i')
  if r[1] ~= status then
    call('ZREM', T .. 'd:' .. status, id)
  elseif keep == '1' then
    call('ZADD', T .. 'd:' .. status, wall, id)
  elseif r[2] == rev then
    drop(id, status, r)
  end
end
return gone
