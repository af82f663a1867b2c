-- Create a run and make it claimable, unless its start is to come.
-- uses: clock lines places births
-- KEYS[1] tag. ARGV: clock, run (see births).
-- Result: {'created' | 'existing' | 'unmade' | 'conflict' | 'moved', id of the run that answers}.
-- Law: one run per id and per living key.
local wall = sign_of_life()
return create(2, #ARGV - 1, wall)
