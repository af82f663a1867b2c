-- Request the cancellation of a run, as an effect that came from another tag.
-- uses: clock lines life places timers going cancels
-- KEYS[1] tag. ARGV: clock, request (see cancels).
-- Result: 1 done, 0 it was requested before, or the run absorbs it.
-- Law: once.
sign_of_life()
return cancel(2, #ARGV - 1)
