-- How many runs there are.
-- uses: clock counting
-- KEYS[1] tag. ARGV: clock, statuses.
-- Result: see counting.
return count()
