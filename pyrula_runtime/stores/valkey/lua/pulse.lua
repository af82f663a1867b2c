-- Give a sign of life, where silence is measured for all shards of a server.
-- uses: clock memory
-- KEYS[1] tag. ARGV: clock.
although_full()
sign_of_life()
return 1
