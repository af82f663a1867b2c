-- Hand a worker's share of the shards to the others of its group.
-- uses: clock memory seats
-- KEYS[1] tag of the first shard. ARGV: clock, incarnation.
although_full()
sign_of_life()
leave(ARGV[2])
nudge()
return 1
