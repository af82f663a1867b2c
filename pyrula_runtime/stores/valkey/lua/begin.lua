-- Begin to use a store, and prove that scripts may do what they have to.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, schema version.
-- Result: the schema version of the store.
-- Law: the first to come writes the version and the first sign of life; who comes later changes nothing.
local _, mono, last, offset = read_clock()
if last == 0 then call('HSET', T .. 'c', 'a', mono, 'o', offset, 'v', ARGV[2]) end
call('PUBLISH', T .. 'begin', '')
return call('HGET', T .. 'c', 'v')
