-- Lines of claimable runs, and those who wait for something to stand in them. A run has its line's name, `<workflow>` or
-- `<workflow>|<version>`, for life; it stands there as `q:` or, a suspect, as `x:`.
local function line_of(name, suspect)
  return (suspect and 'x:' or 'q:') .. name
end

-- Law: whoever was told that a line is empty hears of the first run that comes to stand in it.
local function ring(line)
  if call('SREM', T .. 'z', line, '*') > 0 then
    call('PUBLISH', T .. 'ready', line)
  end
end

local function stand_in_line(id, place, line)
  call('ZADD', T .. line, place, id)
  if string.sub(line, 1, 1) == 'x' then call('SADD', T .. 'xs', id) end
  ring(line)
end

local function leave_line(id, line)
  call('ZREM', T .. line, id)
  if string.sub(line, 1, 1) == 'x' then call('SREM', T .. 'xs', id) end
end
