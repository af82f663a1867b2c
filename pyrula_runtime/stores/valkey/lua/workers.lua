-- The workers known.
-- uses: clock
-- KEYS[1] tag. ARGV: clock.
-- Result: what each told, age of its last beat, and so on.
local _, mono = read_clock()
local known, found = call('ZRANGE', T .. 'pb', 0, -1, 'WITHSCORES'), {}
for i = 1, #known, 2 do
  found[i] = call('HGET', T .. 'ps', known[i])
  found[i + 1] = mono - known[i + 1]
end
return found
