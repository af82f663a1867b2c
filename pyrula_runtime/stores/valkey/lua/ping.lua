-- Prove that the store can take now whatever the scripts write; it is no sign of life.
-- KEYS[1] tag. ARGV: clock.
-- Law: a user who lost the right to some of it does not hear that all is well. What an earlier one left is taken away.
local T, call = KEYS[1], redis.call
-- uses: rights
check_permitted()
local key = T .. 'p'
local writes = {{'SET', key, '1'}, {'INCR', key}, {'HSET', key, 'f', '1'}, {'HINCRBY', key, 'f', '1'},
  {'HDEL', key, 'f'}, {'ZADD', key, '1', 'm'}, {'ZINCRBY', key, '1', 'm'}, {'ZREMRANGEBYSCORE', key, '0', '1'},
  {'ZREM', key, 'm'}, {'SADD', key, 'm'}, {'SREM', key, 'm'}, {'RPUSH', key, 'm'}, {'LPOP', key}, {'UNLINK', key}}
call('SETRANGE', T .. '0', 0, '')  -- refused where memory is full, as a deletion would not be
local kinds = {SET = true, HSET = true, ZADD = true, SADD = true, RPUSH = true}
for _, write in ipairs(writes) do
  if kinds[write[1]] then call('DEL', key) end
  call(unpack(write))
end
call('PUBLISH', key, '')
return 1
