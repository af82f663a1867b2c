-- Register or refresh a worker, and forget those that went silent.
-- uses: clock
-- KEYS[1] tag of the first shard. ARGV: clock, incarnation, what it tells, milliseconds after which the silent are
-- forgotten.
-- Result: number of shards, so that a worker hears of more.
local _, mono = sign_of_life()
local silent = call('ZRANGEBYSCORE', T .. 'pb', '-inf', '(' .. (mono - ARGV[4]), 'LIMIT', 0, 1000)
if #silent > 0 then
  call('ZREM', T .. 'pb', unpack(silent))
  call('HDEL', T .. 'ps', unpack(silent))
end
call('HSET', T .. 'ps', ARGV[2], ARGV[3])
call('ZADD', T .. 'pb', mono, ARGV[2])
return tonumber(call('HGET', T .. 's', 'most') or 1)
