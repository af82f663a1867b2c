-- Take, keep or hand on a share of the shards.
-- uses: clock seats
-- KEYS[1] tag of the first shard. ARGV: clock, incarnation, group, ttl, milliseconds after which any shard is swept again.
-- Result: {number of shards, workers of the group, seats of this one, shards to be swept by it}.
-- Law: after it, every seat has a worker; who has two seats more than another hands one on. Who comes and finds less than
-- a share rings, and those with more look in a moment later, so that a crowd that comes together is served together. The
-- shards of a worker that has not asked for half a life of a lease are swept by those who ask.
local _, mono = sign_of_life()
local me, group, ttl, every = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local before = call('HGET', T .. 'lm', me)
if before and before ~= group then leave(me) end
bury_silent(mono)
local joined = call('ZADD', T .. 'lo:' .. group, 'NX', 0, me) == 1
call('ZADD', T .. 'lb', mono + ttl, me)
call('HSET', T .. 'lm', me, group)
local most, workers = tonumber(call('HGET', T .. 's', 'most') or 1), call('ZCARD', T .. 'lo:' .. group)
local seats, known = number_of_seats(group), tonumber(call('GET', T .. 'ln:' .. group) or 0)
for seat = known, seats - 1 do seat_goes(group, seat, nil, (least_loaded(group))) end
call('SET', T .. 'ln:' .. group, seats)
for _, seat in ipairs(call('ZRANGEBYSCORE', T .. 'ls:' .. me, seats, '+inf')) do
  call('ZREM', T .. 'ls:' .. me, seat)
  call('ZINCRBY', T .. 'lo:' .. group, -1, me)
end
local own = call('ZCARD', T .. 'ls:' .. me)
while true do
  local to, load = least_loaded(group)
  if own - load < 2 then break end
  seat_goes(group, call('ZREVRANGE', T .. 'ls:' .. me, 0, 0)[1], me, to)
  own = own - 1
end
if joined and own < math.floor(seats / workers) then call('PUBLISH', T .. 'lease', '') end
nudge(me)

local sweeps = T .. 'lw:' .. group
if call('EXISTS', sweeps) == 0 or call('ZCARD', sweeps) < most then
  for shard = 0, most - 1 do call('ZADD', sweeps, 'NX', mono - math.floor(every * shard / most), shard) end
end
local swept, at_once = {}, math.ceil(most / workers / 2)
local function sweep(shard, rest)
  if #swept < at_once and tonumber(call('ZSCORE', sweeps, shard)) <= mono - rest then
    call('ZADD', sweeps, mono, shard)
    swept[#swept + 1] = shard
  end
end
for _, who in ipairs(call('ZRANGEBYSCORE', T .. 'lb', '-inf', mono + ttl / 2)) do
  if call('HGET', T .. 'lm', who) == group then
    for _, seat in ipairs(seats_of(who)) do sweep(seat % most, ttl / 2) end
  end
end
for _, shard in ipairs(call('ZRANGEBYSCORE', sweeps, '-inf', mono - every, 'LIMIT', 0, at_once)) do sweep(shard, every) end
return {most, workers, seats_of(me), swept}
