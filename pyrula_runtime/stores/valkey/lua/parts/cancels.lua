-- A request to cancel a run, from ARGV: run id, then status and where it leads, of each that does not absorb.
-- Law: once; a run that is held is told, any other goes where it is led.
local function cancel(at, count)
  local id = ARGV[at]
  local run = standing(id)
  local target = run[1] and (run[9] or 0) % 2 == 0 and lead(at + 1, at + count - 1, run[1])
  if not target then return 0 end
  call('HSET', T .. 'r:' .. id, 'c', (run[9] or 0) + 1, 'r', run[2] + 1)
  if run[3] and run[3] ~= '' then
    tell_holder(run[3])
  elseif target ~= run[1] then
    go_on(id, run, target, run[2] + 1)
  end
  return 1
end
