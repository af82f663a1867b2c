-- Keep an event for the workflows that are subscribed to it.
-- uses: clock events
-- KEYS[1] tag. ARGV: clock, event (see events).
-- Result: 'accepted' | 'duplicate'.
-- Law: once per id, which is remembered at least for the event's time to live.
local wall = sign_of_life()
return emit(2, 4, wall)
