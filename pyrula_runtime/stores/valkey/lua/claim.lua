-- Take claimable runs.
-- uses: clock memory journal lines life take
-- KEYS[1] tag. ARGV: clock, request (see take).
-- Result: a list of claims.
-- Law: an idle claim writes nothing but that somebody waits, and is no sign of life.
needs_memory()
local wall, mono, last = read_clock()
check_rights(mono, last)
local taken = take(2, wall, mono)
if #taken > 0 then sign_of_life() end
return taken
