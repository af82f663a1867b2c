-- Make a schedule, or write one that is still as it was read.
-- uses: clock schedules
-- KEYS[1] tag. ARGV: clock, id, revision (0: there is none), record, when it fires next ('' not).
-- Result: 1, or 0 if it is at another revision.
-- Law: the revision grows with each write, also over a drop.
sign_of_life()
return put(unpack(ARGV, 2, 5))
