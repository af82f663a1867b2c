-- Hear of another number of shards: no key is kept here any more that was placed by any other.
-- KEYS[1] tag. ARGV: clock, number.
redis.call('HSET', KEYS[1] .. 'c', 'n', ARGV[2])
return 1
