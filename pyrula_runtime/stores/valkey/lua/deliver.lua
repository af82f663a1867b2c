-- Put a message into a run's inbox.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, run id, message id, name, body, statuses that absorb.
-- Result: 'delivered' | 'duplicate' | 'ended' | 'unknown'.
-- Law: once per message id, in order of arrival.
sign_of_life()
local _, id, message, name, body = unpack(ARGV, 1, 5)
local status = call('HGET', T .. 'r:' .. id, 's')
if not status then return 'unknown' end
if call('SISMEMBER', T .. 'ms:' .. id, message) == 1 then return 'duplicate' end
for i = 6, #ARGV do
  if ARGV[i] == status then return 'ended' end
end
call('SADD', T .. 'ms:' .. id, message)
call('RPUSH', T .. 'm:' .. id, message, name, body)
return 'delivered'
