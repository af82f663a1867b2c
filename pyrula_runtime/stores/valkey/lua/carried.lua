-- Strike effects out that were carried.
-- uses: clock memory
-- KEYS[1] tag. ARGV: clock, numbers.
-- Law: what was carried twice, by two, is struck out once and was done once.
although_full()
sign_of_life()
for i = 2, #ARGV do call('ZREMRANGEBYSCORE', T .. 'ob', ARGV[i], ARGV[i]) end
return 1
