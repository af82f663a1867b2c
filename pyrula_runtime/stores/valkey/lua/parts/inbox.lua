-- A message for a run, from ARGV: run id, message id, message, then status and where it leads, of each that does not absorb.
-- Law: once per message id, in order of arrival, numbered from 1.
local function deliver(at, count)
  local id, message_id = ARGV[at], ARGV[at + 1]
  local run = standing(id)
  if not run[1] then return 'unknown' end
  if call('SISMEMBER', T .. 'ms:' .. id, message_id) == 1 then return 'duplicate' end
  local target = lead(at + 3, at + count - 1, run[1])
  if not target then return 'ended' end
  call('SADD', T .. 'ms:' .. id, message_id)
  local number = math.floor(call('HINCRBY', T .. 'r:' .. id, 'c', 2) / 2)
  call('ZADD', T .. 'm:' .. id, number, ARGV[at + 2])
  if run[3] and run[3] ~= '' then
    tell_holder(run[3])
  elseif run[8] and target ~= run[1] then
    go_on(id, run, target, run[2] + 1)
  end
  return 'delivered'
end
