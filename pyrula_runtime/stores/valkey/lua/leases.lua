-- Who leases what.
-- uses: clock seats
-- KEYS[1] tag of the first shard. ARGV: clock.
-- Result: number of shards, then of each worker its incarnation, seats, rest of its leases' life.
local _, mono = read_clock()
local all, found = call('ZRANGE', T .. 'lb', 0, -1, 'WITHSCORES'), {tonumber(call('HGET', T .. 's', 'most') or 1)}
for i = 1, #all, 2 do
  found[#found + 1] = all[i]; found[#found + 1] = seats_of(all[i]); found[#found + 1] = all[i + 1] - mono
end
return found
