-- Prove that the store can take now whatever the scripts write, and give a sign of life.
-- uses: clock
-- KEYS[1] tag. ARGV: clock.
-- Law: a user who lost the right to some of it does not hear that all is well. What an earlier one left is taken away. The
-- sign of life is given also where memory is full, for locks are renewed there; one at most of each second is published,
-- to nobody: whoever hears it knows that his subscription stands.
-- uses: rights
check_permitted()
local refused = redis.pcall('SETRANGE', T .. '0', 0, '')  -- where memory is full, as a deletion would not be
if type(refused) == 'table' then
  sign_of_life(true, true)
  return refused
end
local key = T .. 'p'
local writes = {{'SET', key, '1'}, {'INCR', key}, {'HSET', key, 'f', '1'}, {'HINCRBY', key, 'f', '1'},
  {'HDEL', key, 'f'}, {'ZADD', key, '1', 'm'}, {'ZINCRBY', key, '1', 'm'}, {'ZREMRANGEBYSCORE', key, '0', '1'},
  {'ZREM', key, 'm'}, {'SADD', key, 'm'}, {'SREM', key, 'm'}, {'RPUSH', key, 'm'}, {'LPOP', key}, {'UNLINK', key}}
local kinds = {SET = true, HSET = true, ZADD = true, SADD = true, RPUSH = true}
for _, write in ipairs(writes) do
  if kinds[write[1]] then call('DEL', key) end
  call(unpack(write))
end
local _, _, is_news = sign_of_life(false, true)
call('PUBLISH', is_news and T .. 'attention' or key, is_news and '-' or '')
return 1
