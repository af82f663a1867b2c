-- How many suspects are claimable.
-- KEYS[1] tag. ARGV: clock.
return redis.call('SCARD', KEYS[1] .. 'xs')
