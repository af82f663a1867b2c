-- Prove that the store can take a write now; it is no sign of life.
-- KEYS[1] tag. ARGV: clock.
redis.call('SET', KEYS[1] .. 'p', '', 'PX', 60000)
return 1
