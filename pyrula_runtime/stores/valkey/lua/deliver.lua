-- Put a message into a run's inbox; a run that waits for messages goes on.
-- uses: clock lines life places timers going inbox
-- KEYS[1] tag. ARGV: clock, message (see inbox).
-- Result: 'delivered' | 'duplicate' | 'ended' | 'unknown'.
-- Law: once per message id, in order of arrival.
sign_of_life()
return deliver(2, #ARGV - 1)
