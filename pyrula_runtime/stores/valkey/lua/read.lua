-- A run as it stands.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, id.
-- Result: false, or {facts, input, result, error, journal length, messages, rest of the lock's life or false}.
local id = ARGV[2]
local r = call('HMGET', T .. 'r:' .. id, 'w', 'v', 's', 'r', 'f', 'd', 'b', 'c', 'x', 'y', 't', 'u', 'e', 'o')
if not r[1] then return false end
local _, mono = read_clock()
local o = call('HMGET', T .. 'o:' .. id, 'r', 'e')
local lock = call('ZSCORE', T .. 'a', id)
return {r, call('GET', T .. 'i:' .. id), o[1], o[2], call('LLEN', T .. 'j:' .. id), call('SCARD', T .. 'ms:' .. id),
  lock and lock - mono}
