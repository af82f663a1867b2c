-- How many runs there are that are pinned and have not ended.
-- KEYS[1] tag. ARGV: clock.
-- Result: name of a line, number, and so on.
return redis.call('HGETALL', KEYS[1] .. 'pv')
