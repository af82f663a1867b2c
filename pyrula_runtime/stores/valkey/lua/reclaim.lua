-- Make runs whose locks lapsed claimable again, or, after a silence of the whole store, give every lock one more life.
-- uses: clock memory lines life
-- KEYS[1] tag. ARGV: clock, status, ttl, limit, outage: '' to measure silence here, else what the shard of this server
-- says where it is measured: its number and a count.
-- Result: {1 for grace, ids of the runs reclaimed, longest lapsed first, count of the outages measured here, effects to be
-- carried, milliseconds in which no lock lapses: none that is held now, nor one of that ttl that is taken later}.
-- Law: a silence longer than two thirds of a lock's life is nobody's fault and is answered once in every shard, whoever
-- wrote before the scan. In one shard nothing may happen for long; so silence is measured where workers beat.
although_full()
local _, mono = sign_of_life(false, ARGV[5] == '')
local status, ttl, limit, outage = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local grace = false
if outage == '' then
  local silence = tonumber(call('HGET', T .. 'c', 's') or 0)
  if silence > 0 then call('HSET', T .. 'c', 's', 0) end
  grace = 3 * silence > 2 * ttl  -- see core.locks.outage_grace
  if grace then call('HINCRBY', T .. 'c', 'g', 1) end
else
  local known = call('HGET', T .. 'c', 'h')
  grace = known ~= outage and not (not known and string.match(outage, ':0$'))
  if known ~= outage then call('HSET', T .. 'c', 'h', outage) end
end
local outages = tonumber(call('HGET', T .. 'c', 'g') or 0)
if grace then
  while true do
    local some = call('ZRANGEBYSCORE', T .. 'a', '-inf', '(' .. (mono + ttl), 'LIMIT', 0, 1000)
    if #some == 0 then return {1, {}, outages, call('ZCARD', T .. 'ob'), ttl} end
    local longer = {}
    for _, id in ipairs(some) do longer[#longer + 1] = mono + ttl; longer[#longer + 1] = id end
    call('ZADD', T .. 'a', unpack(longer))
  end
end
local lapsed = call('ZRANGEBYSCORE', T .. 'a', '-inf', '(' .. mono, 'LIMIT', 0, limit)
for _, id in ipairs(lapsed) do
  local run = T .. 'r:' .. id
  local r = call('HMGET', run, 'o', 's', 'w', 'n', 'r', 'x', 'i')
  let_go(id, r[1])
  relist(id, r[2], status, r[3], r[7])
  call('HSET', run, 's', status, 'r', r[5] + 1, 'o', '', 'k', '', 'q', '1')
  stand_in_line(id, r[4], line_of(r[3], r[6] == '1'))
  tell_holder(r[1])
end
local first = tonumber(call('ZRANGE', T .. 'a', 0, 0, 'WITHSCORES')[2] or mono + ttl)
return {0, lapsed, outages, call('ZCARD', T .. 'ob'), math.max(0, math.min(first - mono, ttl))}
