-- Law: `pv` counts the runs that are pinned and have not ended, by the names of their lines.
local function count_pinned(name, more)
  if string.find(name, '|', 1, true) and call('HINCRBY', T .. 'pv', name, more) == 0 then
    call('HDEL', T .. 'pv', name)
  end
end
