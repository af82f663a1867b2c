-- A run as it stands.
-- uses: clock places
-- KEYS[1] tag. ARGV: clock, id.
-- Result: false, or {facts, input, result, error, what it shows, journal length, rest of the lock's life or false, due or
-- false}.
local id = ARGV[2]
local r = call('HMGET', T .. 'r:' .. id, 'w', 's', 'r', 'f', 'd', 'b', 'c', 'x', 'y', 't', 'u', 'e', 'o', 'n', 'a', 'i', 'h')
if not r[1] then return false end
local _, mono = read_clock()
local o = call('HMGET', T .. 'o:' .. id, 'r', 'e', 's')
local lock, due = call('ZSCORE', T .. 'a', id), call('ZSCORE', T .. 't:' .. r[2], by_place(r[14], id))
return {r, call('GET', T .. 'i:' .. id), o[1], o[2], o[3], call('LLEN', T .. 'j:' .. id), lock and lock - mono,
  due and tonumber(due)}
