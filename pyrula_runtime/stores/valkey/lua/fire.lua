-- Move a schedule on, with what comes of it.
-- uses: clock lines life places timers going schedules effects
-- KEYS[1] tag. ARGV: clock, id, revision, record, when it fires next ('' not), effects (see effects).
-- Result: 1, or 0 if it is at another revision.
-- Law: whatever number of hosts fire one time, one of them does it.
local wall = sign_of_life()
if put(unpack(ARGV, 2, 5)) == 0 then return 0 end
perform(6, wall)
return 1
