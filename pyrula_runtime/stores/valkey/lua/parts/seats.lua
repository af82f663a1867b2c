-- Leases. All who serve the same are one group and share all shards. What they share are *seats*: as many as there are
-- shards, or workers if those are more; a seat looks at the shard of its number modulo the number of shards. So up to one
-- worker a shard a shard has one lessee, beyond that every worker has one shard and shards have several lessees.
-- Keys, in the tag of the first shard: lb, sorted set by end of life: who keeps asking; lm, hash: of which group he is;
-- ls:<incarnation>, sorted set of his seats; and of a group g: lo:<g>, sorted set of its workers by number of seats;
-- ln:<g>, number of seats; lw:<g>, sorted set of shards by the time of the last sweep.
-- Law: a seat has one worker, and none is taken from a worker that keeps asking; only its own call, or its end, moves one.
-- Only a seat beyond the number of shards may get a second one: if a worker goes and another comes before its holder asks.
local nudged = {}

local function seats_of(who)
  return call('ZRANGE', T .. 'ls:' .. who, 0, -1)
end

local function seat_goes(group, seat, from, to)
  if from then
    call('ZREM', T .. 'ls:' .. from, seat)
    call('ZINCRBY', T .. 'lo:' .. group, -1, from)
  end
  call('ZADD', T .. 'ls:' .. to, seat, seat)
  call('ZINCRBY', T .. 'lo:' .. group, 1, to)
  nudged[to] = true
end

local function least_loaded(group)
  local least = call('ZRANGE', T .. 'lo:' .. group, 0, 0, 'WITHSCORES')
  return least[1], tonumber(least[2])
end

local function number_of_seats(group)
  return math.max(tonumber(call('HGET', T .. 's', 'most') or 1), call('ZCARD', T .. 'lo:' .. group))
end

-- Who leaves hands his seats to whoever has the fewest.
local function leave(who)
  local group, left = call('HGET', T .. 'lm', who), seats_of(who)
  call('DEL', T .. 'ls:' .. who)
  call('ZREM', T .. 'lb', who)
  call('HDEL', T .. 'lm', who)
  if not group then return end
  call('ZREM', T .. 'lo:' .. group, who)
  if not least_loaded(group) then
    call('DEL', T .. 'ln:' .. group)
    call('DEL', T .. 'lw:' .. group)
    return
  end
  local seats = number_of_seats(group)
  for _, seat in ipairs(left) do
    if tonumber(seat) < seats then seat_goes(group, seat, nil, (least_loaded(group))) end
  end
end

local function bury_silent(mono)
  for _, who in ipairs(call('ZRANGEBYSCORE', T .. 'lb', '-inf', mono, 'LIMIT', 0, 100)) do leave(who) end
end

-- Tell those who got a seat, but for one who hears it as his answer.
local function nudge(but)
  for who in pairs(nudged) do
    if who ~= but then call('PUBLISH', T .. 'lease', who) end
  end
end
