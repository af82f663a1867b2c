-- The oldest effects after a number that were written for other tags and are still to be carried there.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, limit, number.
-- Result: {number, name of the script, tag, arguments} of each, in the order in which they were written.
local found = {}
for i, entry in ipairs(call('ZRANGEBYSCORE', T .. 'ob', '(' .. ARGV[3], '+inf', 'LIMIT', 0, ARGV[2])) do
  local effect = cmsgpack.unpack(entry)
  local args = {}
  for j = 4, #effect do args[j - 3] = effect[j] end
  found[i] = {effect[1], effect[2], effect[3], args}
end
return found
