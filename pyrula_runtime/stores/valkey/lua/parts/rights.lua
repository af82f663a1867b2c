-- Law: whoever may not do all that scripts do is refused before the first write, and told what: a script that is broken off
-- is not undone. Servers before 7 cannot be asked. The commands are those that stand in any script.
local function check_permitted()
  if not redis.acl_check_cmd then return end
  local missing = {}
  for _, command in ipairs({'DEL', 'EXISTS', 'GET', 'HDEL', 'HGET', 'HGETALL', 'HINCRBY', 'HMGET', 'HSET', 'INCR', 'LINDEX',
    'LLEN', 'LPOP', 'LRANGE', 'PUBLISH', 'RPUSH', 'SADD', 'SCARD', 'SET', 'SETRANGE', 'SISMEMBER', 'SMEMBERS', 'SREM', 'TIME',
    'UNLINK', 'ZADD', 'ZCARD', 'ZINCRBY', 'ZRANGE', 'ZRANGEBYSCORE', 'ZREM', 'ZREMRANGEBYSCORE', 'ZREVRANGE',
    'ZREVRANGEBYLEX', 'ZSCORE'}) do
    if not redis.acl_check_cmd(command, T .. '0') then missing[#missing + 1] = command end
  end
  if #missing > 0 then error({err = 'NOPERM it may not ' .. table.concat(missing, ', ')}) end
end
