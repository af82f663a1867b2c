-- Forget a worker.
-- uses: clock memory
-- KEYS[1] tag. ARGV: clock, incarnation.
although_full()
sign_of_life()
call('ZREM', T .. 'pb', ARGV[2])
return call('HDEL', T .. 'ps', ARGV[2])
