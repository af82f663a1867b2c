-- Sending on a run that is neither held nor claimable.
local function standing(id)
  return call('HMGET', T .. 'r:' .. id, 's', 'r', 'o', 'w', 'n', 'x', 'i', 'h', 'c')
end

-- Law: it stands where it stood, in front of what came after it, and waits for nothing any more.
local function go_on(id, run, status, rev)
  wait_no_more(id, run[5], run[1])
  relist(id, run[1], status, run[4], run[7])
  call('HSET', T .. 'r:' .. id, 's', status, 'r', rev, 'q', '1')
  if run[8] then call('HDEL', T .. 'r:' .. id, 'h') end
  stand_in_line(id, run[5], line_of(run[4], run[6] == '1'))
end

-- Where the moves that stand in ARGV lead from a status; nil if they leave it out, and then it absorbs.
local function lead(from, upto, status)
  for at = from, upto, 2 do
    if ARGV[at] == status then return ARGV[at + 1] end
  end
end
